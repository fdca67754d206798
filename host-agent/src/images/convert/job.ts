// The converter's job and reports: lines of JSON.
import type { Converted } from './convert.ts';
import type { ConvertLimits } from './limits.ts';

/** `diffIds` has, for each layer, the digest that the unpacked layer must have; null accepts any digest. */
export type Job = { readonly diffIds: readonly (string | null)[]; readonly limits: ConvertLimits };

export type Report =
  | { readonly layersDone: number }
  | { readonly converted: Converted }
  /** The image cannot be converted; the text is a sentence with the reason. */
  | { readonly problem: string }
  /** The converter itself failed; `code` is the errno name, or empty. */
  | { readonly failure: string; readonly code: string };

export function parseJob(text: string): Job {
  return JSON.parse(text) as Job;
}
