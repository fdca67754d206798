// What the converter is told, and what it says: lines of JSON.
import type { Converted } from './convert.ts';
import type { ConvertLimits } from './limits.ts';

/** Of each layer the digest that it must have unpacked; null: any. */
export type Job = { readonly diffIds: readonly (string | null)[]; readonly limits: ConvertLimits };

export type Report =
  | { readonly layersDone: number }
  | { readonly converted: Converted }
  /** The image cannot be converted: a sentence about it. */
  | { readonly problem: string }
  /** The converter failed; `code` as of the system. */
  | { readonly failure: string; readonly code: string };

export function parseJob(text: string): Job {
  return JSON.parse(text) as Job;
}
