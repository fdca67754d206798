// Filters of the list of sandboxes, as they are in the URL.
import type { SandboxInfo } from '@sandboxd/client';

export type Filters = {
  /** Words that name, id, labels, profile or image contain; all must be there. */
  readonly text: string;
  readonly state: string;
  /** `key=value`, or `key` alone; all must match. */
  readonly labels: readonly string[];
};

export function parseFilters(query: URLSearchParams): Filters {
  return { text: query.get('q') ?? '', state: query.get('state') ?? '', labels: query.getAll('label') };
}

export function toQuery({ text, state, labels }: Filters): URLSearchParams {
  const query = new URLSearchParams();
  if (text !== '') query.set('q', text);
  if (state !== '') query.set('state', state);
  for (const label of labels) query.append('label', label);
  return query;
}

export function isFiltered({ text, state, labels }: Filters): boolean {
  return text.trim() !== '' || state !== '' || labels.length > 0;
}

export function matches(info: SandboxInfo, { text, state, labels }: Filters): boolean {
  if (state !== '' && info.state !== state) return false;
  if (!labels.every((label) => hasLabel(info.labels, label))) return false;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const all = [
    info.id,
    info.name,
    toSource(info),
    ...Object.entries(info.labels).map((pair) => pair.join('=')),
  ];
  const shown = all.join('\n').toLowerCase();
  return words.every((word) => shown.includes(word));
}

/** What it was started from. */
export function toSource({ profile, image, source_snapshot_id, source_sandbox_id }: SandboxInfo): string {
  return image?.reference ?? profile ?? source_snapshot_id ?? source_sandbox_id ?? '';
}

function hasLabel(labels: SandboxInfo['labels'], wanted: string): boolean {
  const at = wanted.indexOf('=');
  const key = at === -1 ? wanted : wanted.slice(0, at);
  return Object.hasOwn(labels, key) && (at === -1 || labels[key] === wanted.slice(at + 1));
}
