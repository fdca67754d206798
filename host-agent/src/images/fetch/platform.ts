// Which of several images is for the guests here: linux/amd64, by any of its names.
import { z } from 'zod';

export const platform = z.object({
  os: z.string(),
  architecture: z.string(),
  variant: z.string().nullish(),
});

export type Platform = z.infer<typeof platform>;

const AMD64 = ['amd64', 'x86_64', 'x86-64', ''];
/** The lower, the more CPUs run it; what a snapshot is of may go on upon another host. */
const VARIANTS = ['', 'v1', 'v2', 'v3', 'v4'];

/** Undefined for another platform; else the lower the better. What says nothing of it is taken for one of ours. */
export function rankOf({ os, architecture, variant }: Platform): number | undefined {
  const isOurs = ['linux', ''].includes(os.toLowerCase()) && AMD64.includes(architecture.toLowerCase());
  if (!isOurs) return undefined;
  const rank = VARIANTS.indexOf((variant ?? '').toLowerCase());
  return rank < 0 ? VARIANTS.length : rank;
}

/** The first one of the best. */
export function chooseBest<T>(all: readonly T[], platformOf: (each: T) => Platform): T | undefined {
  let best: { readonly each: T; readonly rank: number } | undefined;
  for (const each of all) {
    const rank = rankOf(platformOf(each));
    if (rank !== undefined && rank < (best?.rank ?? Number.POSITIVE_INFINITY)) best = { each, rank };
  }
  return best?.each;
}

/** `linux/arm64/v8`. */
export function showPlatform({ os, architecture, variant }: Platform): string {
  return [os || 'linux', architecture, variant].filter(Boolean).join('/');
}
