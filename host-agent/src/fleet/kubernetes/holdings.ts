// What hosts have already, as labels of their Nodes: pods prefer such hosts, so that an image is not pulled, and
// a snapshot not fetched, where another host has it.
import { createHash } from 'node:crypto';
import { formatReference, parseReference } from '../../images/reference.ts';

const PREFIX = 'sandboxd.dev/has-';
const DIGEST_CHARS = 12;
/** Objects of the API server are small; the newest count. */
const MAX_HOLDINGS = 200;
/**
 * Of 100. The scheduler scores the best host with 100 and gives its other criteria, such as free memory, half of the
 * weight: with less than all, a host that has an image does not get all of its sandboxes.
 */
const WEIGHT = 25;

export function toImageHolding(text: string): string {
  const reference = parseReference(text);
  return `image ${reference === undefined ? text : formatReference(reference)}`;
}

export function toSnapshotHolding(id: string): string {
  return `snapshot ${id}`;
}

export function toHoldingLabel(holding: string): string {
  return `${PREFIX}${createHash('sha256').update(holding).digest('hex').slice(0, DIGEST_CHARS)}`;
}

export function isHoldingLabel(label: string): boolean {
  return label.startsWith(PREFIX);
}

/** `holdings`: the newest first. */
export function toHoldingLabels(holdings: readonly string[]): ReadonlySet<string> {
  return new Set(holdings.slice(0, MAX_HOLDINGS).map(toHoldingLabel));
}

/** `hostLabel`: that of all hosts. */
export function toPreference(holding: string, hostLabel: string) {
  const term = (weight: number, key: string) => ({
    weight,
    preference: { matchExpressions: [{ key, operator: 'Exists' }] },
  });
  return [term(100 - WEIGHT, hostLabel), term(WEIGHT, toHoldingLabel(holding))];
}
