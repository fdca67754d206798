// Requests that concern all hosts: each is asked at the same time, and a host that does not answer is named.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { toPage } from '../../http/input/page.ts';
import { AppError } from '../../lib/errors.ts';
import type { Host } from '../catalogue.ts';
import { RefusedCaller } from './callers.ts';
import { answer } from './creates.ts';
import { type Asked, type FanOut, keyRefusalOf, refusalOf } from './fan-out.ts';
import type { HostAnswer } from './host-connections.ts';
import { parseJson } from './json.ts';
import type { Parked } from './parked.ts';

const entry = z.looseObject({ id: z.string(), created_at: z.string() });
const deletions = z.object({
  deleted: z.array(z.string()),
  failed: z.array(z.unknown()),
  warnings: z.array(z.string()).optional(),
});

export class Lists {
  readonly #fanOut: FanOut;
  readonly #parked: Pick<Parked, 'list'>;

  constructor(fanOut: FanOut, parked: Pick<Parked, 'list'>) {
    this.#fanOut = fanOut;
    this.#parked = parked;
  }

  /** `field` has the entries of the list. */
  async list(request: IncomingMessage, response: ServerResponse, path: string, field: string): Promise<void> {
    const isOfSandboxes = field === 'sandboxes';
    const [asked, stored] = await Promise.all([
      this.#fanOut.askAll(request, response, path),
      isOfSandboxes ? this.#parked.list(request, path).catch(() => undefined) : undefined,
    ]);
    const schema = z.looseObject({
      [field]: z.array(entry),
      next_cursor: z.string().optional(),
      store_error: z.string().optional(),
    });
    const found = readBodies(asked, schema);
    if ('refusal' in found) return answer(response, found.refusal);
    const parked = schema.safeParse(parseJson(stored?.body.toString() ?? '')).data;
    // What a host has is as that host says.
    const parsed = [...found.parsed, ...(parked === undefined ? [] : [parked])];
    const storeError = parsed.find((body) => body.store_error !== undefined)?.store_error;
    // A sandbox that moves is on the lists of both hosts for some seconds; it is paused on the one that it leaves.
    const known = new Map<string, z.output<typeof entry>>();
    for (const each of parsed.flatMap((body) => body[field] as z.output<typeof entry>[]))
      if (!known.has(each.id) || (known.get(each.id)?.state === 'paused' && each.state !== 'paused'))
        known.set(each.id, each);
    const all = [...known.values()];
    const query = new URLSearchParams(path.split('?')[1] ?? '');
    const limit = Number(query.get('limit') || 0);
    all.sort(compare);
    const isCut = parsed.some((body) => body.next_cursor !== undefined) || (limit > 0 && all.length > limit);
    // A page of the fleet: each host gave at most `limit` entries after the cursor.
    const page =
      limit > 0 ? toPage(isCut ? [...all, LAST] : all, toKey, { limit }) : { entries: all, next: {} };
    const { warnings } = parsed.find((body) => body.warnings !== undefined) ?? {};
    send(response, {
      [field]: page.entries.filter((each) => each !== LAST),
      ...page.next,
      ...named(found.missing),
      ...(storeError !== undefined && { store_error: storeError }),
      ...(warnings !== undefined && { warnings }),
    });
  }

  /** What only the store has goes after the rest: a host ends its own sandboxes, also while they leave it. */
  async delete(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const asked = await this.#fanOut.askAll(request, response, path);
    const found = readBodies(asked, deletions);
    if ('refusal' in found) return answer(response, found.refusal);
    const stored = await this.#parked.list(request, path).catch(() => undefined);
    const parked = deletions.safeParse(parseJson(stored?.body.toString() ?? '')).data;
    const parsed = [...found.parsed, ...(parked === undefined ? [] : [parked])];
    const { warnings } = parsed.find((body) => body.warnings !== undefined) ?? {};
    send(response, {
      deleted: parsed.flatMap(({ deleted }) => deleted),
      failed: parsed.flatMap(({ failed }) => failed),
      ...named(found.missing),
      ...(warnings !== undefined && { warnings }),
    });
  }

  /** A host whose answer is 200, with that answer; one that has its own copy first. RefusedCaller. */
  async locate(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
  ): Promise<{ host: Host; found: HostAnswer } | undefined> {
    return await this.#fanOut.readAll(request, response, path, (asked) => {
      const having = asked.filter(({ found }) => found?.answer.statusCode === 200);
      // With a snapshot store all know it, and some have a copy.
      const has = having.find(({ found }) => !isRemote(found)) ?? having[0];
      if (has?.found !== undefined) return { host: has.host, found: has.found };
      const refusal = keyRefusalOf(asked);
      if (refusal !== undefined) throw new RefusedCaller(refusal);
      const missing = asked.flatMap(({ host, found }) => (found === undefined ? [host.name] : [])).sort();
      if (missing.length === 0) return undefined;
      throw new AppError('upstream', `it may be on a host that does not answer: ${missing.join(', ')}`);
    });
  }
}

function isRemote(found: HostAnswer | undefined): boolean {
  const remote = z.object({ storage: z.literal('remote') });
  return remote.safeParse(parseJson(found?.body.toString() ?? '')).success;
}

/**
 * What those hosts answered that carried the request out; the others are missing. If none did, the refusal of one is
 * the client’s answer. AppError upstream when none answered.
 */
function readBodies<T>(
  asked: readonly Asked[],
  schema: z.ZodType<T>,
): { readonly parsed: T[]; readonly missing: string[] } | { readonly refusal: HostAnswer } {
  const parsed: T[] = [];
  const missing: string[] = [];
  for (const { host, found } of asked) {
    const isWhole = found?.answer.statusCode === 200;
    const { data } = schema.safeParse(isWhole ? parseJson(found.body.toString()) : undefined);
    if (data !== undefined) parsed.push(data);
    else missing.push(host.name);
  }
  if (parsed.length > 0) return { parsed, missing };
  const refusal = refusalOf(asked);
  if (refusal !== undefined) return { refusal };
  throw new AppError('upstream', 'no host of the fleet answers');
}

function named(hosts: readonly string[]): { readonly unreachable_hosts?: string[] } {
  return hosts.length === 0 ? {} : { unreachable_hosts: hosts.toSorted() };
}

/** Behind all others, so that a page that is cut has a cursor. */
const LAST = { id: '~', created_at: '9999-12-31T00:00:00.000Z' };

function toKey({ created_at, id }: z.output<typeof entry>) {
  return { atMs: Date.parse(created_at) || 0, name: id };
}

function compare(a: z.output<typeof entry>, b: z.output<typeof entry>): number {
  return toKey(a).atMs - toKey(b).atMs || (a.id < b.id ? -1 : 1);
}

export function send(response: ServerResponse, body: object, status = 200): void {
  if (response.headersSent || response.destroyed) return;
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
  });
  response.end(response.req.method === 'HEAD' ? undefined : text);
}
