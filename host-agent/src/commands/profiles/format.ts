// Formats sizes and durations for output.

export function formatMib(sizeBytes: number): string {
  return `${(sizeBytes / 2 ** 20).toFixed(0)} MiB`;
}

/** `startedAt` is a value of performance.now(). */
export function formatSeconds(startedAt: number): string {
  return `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
}
