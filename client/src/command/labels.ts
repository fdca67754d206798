// Labels on the command line: `--label key=value`.
import { UsageError } from '@sandboxd/api/command-line';

/** Labels by key. UsageError for one without a value. */
export function toLabels(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.map((each) => {
      const at = each.indexOf('=');
      if (at < 1) throw new UsageError(`--label must be key=value, got ${JSON.stringify(each)}`);
      return [each.slice(0, at), each.slice(at + 1)];
    }),
  );
}

/** A column of labels. */
export function formatLabels(labels: Readonly<Record<string, string>> = {}): string {
  return Object.entries(labels)
    .map(([key, value]) => (value === '' ? key : `${key}=${value}`))
    .join(',');
}
