// Whether the labels of an object match the filters of a list, webhook or stream of events.
import type { LabelFilter, Labels } from '@sandboxd/api';

/** Whether the labels match every filter. No filters match everything. */
export function matchesLabels(
  labels: Labels | undefined,
  filters: readonly LabelFilter[] | undefined,
): boolean {
  return (filters ?? []).every(({ key, value }) => {
    if (labels === undefined || !Object.hasOwn(labels, key)) return false;
    return value === undefined || labels[key] === value;
  });
}
