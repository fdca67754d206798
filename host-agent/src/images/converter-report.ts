// Validates the converter's reports: the program is ours, but its input is untrusted.
import { z } from 'zod';
import type { Report } from './convert/job.ts';

const report = z.union([
  z.object({ layersDone: z.int() }),
  z.object({
    converted: z.object({
      digest: z.string().regex(/^[\da-f]{64}$/),
      sizeBytes: z.int().min(0),
      entries: z.int().min(0),
      contentBytes: z.int().min(0),
    }),
  }),
  z.object({ problem: z.string().max(4096) }),
  z.object({ failure: z.string(), code: z.string() }),
]);

/** Parses one line. A line that is not a valid report becomes a failure. */
export function parseReport(line: string): Report {
  try {
    return report.parse(JSON.parse(line));
  } catch {
    return { failure: `the converter sent an invalid report: ${line.slice(0, 200)}`, code: '' };
  }
}
