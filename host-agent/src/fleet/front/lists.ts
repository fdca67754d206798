// Requests that concern all hosts: each is asked at the same time, and a host that does not answer is named.
import type { IncomingMessage, ServerResponse } from 'node:http';
import PQueue from 'p-queue';
import { z } from 'zod';
import { toPage } from '../../http/input/page.ts';
import { AppError, toError } from '../../lib/errors.ts';
import type { FleetMap, Host } from '../catalogue.ts';
import { answer } from './creates.ts';
import { toHostHeaders } from './headers.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';
import { parseJson } from './json.ts';

const LIST_MS = 5000;
const MAX_ASKED_AT_ONCE = 256;

const entry = z.looseObject({ id: z.string(), created_at: z.string() });
const deletions = z.object({
  deleted: z.array(z.string()),
  failed: z.array(z.unknown()),
  warnings: z.array(z.string()).optional(),
});

/** `failure`: why there is no answer. */
export type Asked = {
  readonly host: Host;
  readonly found: HostAnswer | undefined;
  readonly failure?: string;
};

export class Lists {
  readonly #map: FleetMap;
  readonly #connections: HostConnections;

  constructor(map: FleetMap, connections: HostConnections) {
    this.#map = map;
    this.#connections = connections;
  }

  /** `field` has the entries of the list. */
  async list(request: IncomingMessage, response: ServerResponse, path: string, field: string): Promise<void> {
    const asked = await this.askAll(request, path);
    const schema = z.looseObject({ [field]: z.array(entry), next_cursor: z.string().optional() });
    const found = readBodies(asked, schema);
    if ('refusal' in found) return answer(response, found.refusal);
    const { parsed } = found;
    // A sandbox that moves is on the lists of both hosts for some seconds; it is paused on the one that it leaves.
    const known = new Map<string, z.output<typeof entry>>();
    for (const each of parsed.flatMap((body) => body[field] as z.output<typeof entry>[]))
      if (!known.has(each.id) || known.get(each.id)?.state === 'paused') known.set(each.id, each);
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
      ...(warnings !== undefined && { warnings }),
    });
  }

  async delete(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const asked = await this.askAll(request, path);
    const found = readBodies(asked, deletions);
    if ('refusal' in found) return answer(response, found.refusal);
    const { parsed } = found;
    const { warnings } = parsed.find((body) => body.warnings !== undefined) ?? {};
    send(response, {
      deleted: parsed.flatMap(({ deleted }) => deleted),
      failed: parsed.flatMap(({ failed }) => failed),
      ...named(found.missing),
      ...(warnings !== undefined && { warnings }),
    });
  }

  /** A host whose answer is 200, with that answer; one that has its own copy first. */
  async locate(
    request: IncomingMessage,
    path: string,
  ): Promise<{ host: Host; found: HostAnswer } | undefined> {
    const asked = await this.askAll({ ...pick(request), method: 'GET' }, path);
    const having = asked.filter(({ found }) => found?.answer.statusCode === 200);
    // With a snapshot store all know it, and some have a copy.
    const has = having.find(({ found }) => !isRemote(found)) ?? having[0];
    if (has?.found !== undefined) return { host: has.host, found: has.found };
    const missing = asked.flatMap(({ host, found }) => (found === undefined ? [host.name] : [])).sort();
    if (missing.length === 0) return undefined;
    throw new AppError('upstream', `it may be on a host that does not answer: ${missing.join(', ')}`);
  }

  /** AppError exhausted for a fleet without hosts. */
  async askAll(
    request: Pick<IncomingMessage, 'rawHeaders' | 'headers' | 'method'>,
    path: string,
  ): Promise<readonly Asked[]> {
    const hosts = this.#map.hosts();
    if (hosts.length === 0) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    const { method = 'GET' } = request;
    const own = toHostHeaders(request as IncomingMessage);
    const headers = own.flatMap((name, at) =>
      at % 2 === 0 && /^(?:authorization|prefer|accept|x-request-id)$/i.test(name)
        ? [name, own[at + 1] ?? '']
        : [],
    );
    const limit = AbortSignal.timeout(LIST_MS);
    const ask = async (host: Host): Promise<Asked> => {
      const found = await this.#connections.send(host, { method, path, headers }, undefined, limit);
      const { statusCode = 500 } = found.answer;
      return statusCode < 500
        ? { host, found }
        : { host, found: undefined, failure: `it answers with status ${statusCode}` };
    };
    const fail = (host: Host, error: unknown): Asked => ({
      ...{ host, found: undefined, failure: toError(error).message },
    });
    // Those that are not reached in time are missing in the answer, as those that do not answer.
    const queue = new PQueue({ concurrency: MAX_ASKED_AT_ONCE });
    return await Promise.all(
      hosts.map((host) => queue.add(() => ask(host).catch((error: unknown) => fail(host, error)))),
    );
  }
}

function isRemote(found: HostAnswer | undefined): boolean {
  const remote = z.object({ storage: z.literal('remote') });
  return remote.safeParse(parseJson(found?.body.toString() ?? '')).success;
}

function pick({ rawHeaders, headers }: IncomingMessage) {
  return { rawHeaders, headers };
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
  let refusal: HostAnswer | undefined;
  for (const { host, found } of asked) {
    const isDone = found?.answer.statusCode === 200;
    const { data } = schema.safeParse(isDone ? parseJson(found.body.toString()) : undefined);
    if (data !== undefined) parsed.push(data);
    else missing.push(host.name);
    if (!isDone) refusal ??= found;
  }
  if (parsed.length > 0) return { parsed, missing };
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
