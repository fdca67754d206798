// What the converter says, checked: its program is ours, but what it reads is not.
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

/** One line. What makes no sense is a failure. */
export function parseReport(line: string): Report {
  try {
    return report.parse(JSON.parse(line));
  } catch {
    return { failure: `it said ${line.slice(0, 200)}`, code: '' };
  }
}
