// Labels of objects: their changes, and whether they match the filters of a list, webhook or stream of events.
import {
  countLabelChars,
  type LabelSelector,
  type Labels,
  MAX_LABELS,
  MAX_LABELS_CHARS,
} from '@sandboxd/api';
import { AppError } from './errors.ts';

/** Whether the labels match every filter. No filters match everything. */
export function matchesLabels(
  labels: Labels | undefined,
  filters: readonly LabelSelector[] | undefined,
): boolean {
  return (filters ?? []).every(({ key, value }) => {
    // Own properties only: every object inherits names such as `constructor`.
    if (labels === undefined || !Object.hasOwn(labels, key)) return false;
    return value === undefined || labels[key] === value;
  });
}

/** The name of a label in metrics: `app.example/tier` is `label_app_example_tier`. */
export function toMetricLabel(key: string): string {
  return `label_${key.replace(/[^a-zA-Z0-9]/g, '_')}`;
}

/** `null` removes a label. AppError invalid_argument if too many remain, or too long ones. */
export function changeLabels(
  labels: Labels = {},
  changes: Readonly<Record<string, string | null>> = {},
): Labels {
  const changed = Object.entries({ ...labels, ...changes });
  const kept = changed.filter((entry): entry is [string, string] => entry[1] !== null);
  const chars = countLabelChars(kept);
  if (chars > MAX_LABELS_CHARS)
    throw new AppError(
      'invalid_argument',
      `labels must have at most ${MAX_LABELS_CHARS} characters in keys and values, those that exist included, ` +
        `got ${chars}`,
    );
  if (kept.length <= MAX_LABELS) return Object.fromEntries(kept);
  const message = `labels must be at most ${MAX_LABELS}, those that exist included, got ${kept.length}`;
  throw new AppError('invalid_argument', message);
}
