// Progress events of long steps; the command prints them, a daemon may log them.
import { performance } from 'node:perf_hooks';

export type ProgressEvent =
  | { kind: 'start'; step: string }
  | { kind: 'note'; step: string; text: string }
  | { kind: 'done'; step: string; durationMs: number };

export type Progress = (event: ProgressEvent) => void;

export const silentProgress: Progress = () => {};

/** Runs one named step; `note` reports a line of detail while it runs. */
export async function runStep<T>(
  progress: Progress,
  step: string,
  body: (note: (text: string) => void) => Promise<T>,
): Promise<T> {
  progress({ kind: 'start', step });
  const startedAt = performance.now();
  const result = await body((text) => progress({ kind: 'note', step, text }));
  progress({ kind: 'done', step, durationMs: performance.now() - startedAt });
  return result;
}
