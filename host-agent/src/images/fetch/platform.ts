// Selects the image for the guests' platform, linux/amd64, under any of its names.
import { z } from 'zod';

export const platform = z.object({
  os: z.string(),
  architecture: z.string(),
  variant: z.string().nullish(),
});

export type Platform = z.infer<typeof platform>;

const AMD64 = ['amd64', 'x86_64', 'x86-64', ''];
/** Lowest first: a lower variant runs on more CPUs, and a snapshot may be restored on another host. */
const VARIANTS = ['', 'v1', 'v2', 'v3', 'v4'];

/** Undefined for another platform; otherwise lower is better. Missing fields count as linux/amd64. */
export function rankOf({ os, architecture, variant }: Platform): number | undefined {
  const isOurs = ['linux', ''].includes(os.toLowerCase()) && AMD64.includes(architecture.toLowerCase());
  if (!isOurs) return undefined;
  const rank = VARIANTS.indexOf((variant ?? '').toLowerCase());
  return rank < 0 ? VARIANTS.length : rank;
}

/** Returns the first item with the best rank. */
export function chooseBest<T>(all: readonly T[], platformOf: (each: T) => Platform): T | undefined {
  let best: { readonly each: T; readonly rank: number } | undefined;
  for (const each of all) {
    const rank = rankOf(platformOf(each));
    if (rank !== undefined && rank < (best?.rank ?? Number.POSITIVE_INFINITY)) best = { each, rank };
  }
  return best?.each;
}

/** Such as `linux/arm64/v8`. */
export function showPlatform({ os, architecture, variant }: Platform): string {
  return [os || 'linux', architecture, variant].filter(Boolean).join('/');
}
