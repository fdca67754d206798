// A list in pages, of objects some of which any user may have made: large, and many.
import { z } from 'zod';
import { AnswerTooLarge, type KubeRequest } from './client.ts';

const PAGE_ITEMS = 500;
/** Of one page; one that is larger is asked for again with fewer objects, down to one. */
const MAX_PAGE_BYTES = 16 * 2 ** 20;
const FEWER = 4;
/** After so many pages that are not: any user may put large objects between the others. */
const MORE = 2;
const MORE_AFTER = 3;
/** A page of few objects arrives within it from a server that is far away. */
const PAGE_TIMEOUT_MS = 30_000;

const page = z.object({
  metadata: z.object({ resourceVersion: z.string(), continue: z.string().optional() }),
  items: z.array(z.unknown()),
});

export type ListRequest = Pick<KubeRequest, 'path' | 'query' | 'signal'>;

/** Returns the version of the list. Rejects as `ask` does. */
export async function* readPages(
  ask: (request: KubeRequest) => Promise<unknown>,
  { path, query, signal }: ListRequest,
): AsyncGenerator<readonly unknown[], string, undefined> {
  let [limit, fitting] = [PAGE_ITEMS, 0];
  for (let next: string | undefined; ; ) {
    const asked = { ...query, limit: String(limit), continue: next };
    const answer = await ask({
      ...{ method: 'GET', path, query: asked, signal },
      ...{ maxBytes: MAX_PAGE_BYTES, timeoutMs: PAGE_TIMEOUT_MS },
    }).catch((error: unknown) => {
      if (!(error instanceof AnswerTooLarge) || limit === 1) throw error;
      return undefined;
    });
    if (answer === undefined) {
      [limit, fitting] = [Math.max(1, Math.floor(limit / FEWER)), 0];
      continue;
    }
    const { metadata, items } = page.parse(answer);
    yield items;
    fitting += 1;
    if (fitting % MORE_AFTER === 0) limit = Math.min(PAGE_ITEMS, limit * MORE);
    next = metadata.continue || undefined;
    if (next === undefined) return metadata.resourceVersion;
  }
}
