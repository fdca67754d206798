// Labels of objects: their changes, and whether they match the filters of a list, webhook or stream of events.
import { type LabelSelector, type Labels, MAX_LABELS } from '@sandboxd/api';
import { AppError } from './errors.ts';

/** Whether the labels match every filter. No filters match everything. */
export function matchesLabels(
  labels: Labels | undefined,
  filters: readonly LabelSelector[] | undefined,
): boolean {
  return (filters ?? []).every(({ key, value }) => {
    if (labels === undefined || !Object.hasOwn(labels, key)) return false;
    return value === undefined || labels[key] === value;
  });
}

/** `null` removes a label. AppError invalid_argument if there are too many then. */
export function changeLabels(
  labels: Labels = {},
  changes: Readonly<Record<string, string | null>> = {},
): Labels {
  const changed = new Map<string, string>(Object.entries(labels));
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) changed.delete(key);
    else changed.set(key, value);
  }
  if (changed.size > MAX_LABELS)
    throw new AppError(
      'invalid_argument',
      `there would be ${changed.size} labels, at most ${MAX_LABELS} are allowed`,
    );
  return Object.fromEntries(changed);
}
