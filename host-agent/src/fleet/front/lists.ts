// Requests that concern all hosts: each is asked at the same time, and a host that does not answer is named.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { toPage } from '../../http/input/page.ts';
import { AppError } from '../../lib/errors.ts';
import type { FleetMap, Host } from '../catalogue.ts';
import { answer } from './creates.ts';
import { toHostHeaders } from './headers.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';

const LIST_MS = 5000;
const MAX_ASKED_AT_ONCE = 256;

const entry = z.looseObject({ id: z.string(), created_at: z.string() });
const deletions = z.object({
  deleted: z.array(z.string()),
  failed: z.array(z.unknown()),
  warnings: z.array(z.string()).optional(),
});

type Asked = { readonly host: Host; readonly found: HostAnswer | undefined };

export class Lists {
  readonly #map: FleetMap;
  readonly #connections: HostConnections;

  constructor(map: FleetMap, connections: HostConnections) {
    this.#map = map;
    this.#connections = connections;
  }

  /** `field` has the entries of the list. */
  async list(request: IncomingMessage, response: ServerResponse, path: string, field: string): Promise<void> {
    const asked = await this.#askAll(request, path);
    const bodies = readBodies(asked, response);
    if (bodies === undefined) return;
    const schema = z.looseObject({ [field]: z.array(entry), next_cursor: z.string().optional() });
    const parsed = bodies.map((body) => schema.parse(body));
    const all = parsed.flatMap((body) => body[field] as z.output<typeof entry>[]);
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
      ...named(asked),
      ...(warnings !== undefined && { warnings }),
    });
  }

  async delete(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const asked = await this.#askAll(request, path);
    const bodies = readBodies(asked, response);
    if (bodies === undefined) return;
    const parsed = bodies.map((body) => deletions.parse(body));
    const { warnings } = parsed.find((body) => body.warnings !== undefined) ?? {};
    send(response, {
      deleted: parsed.flatMap(({ deleted }) => deleted),
      failed: parsed.flatMap(({ failed }) => failed),
      ...named(asked),
      ...(warnings !== undefined && { warnings }),
    });
  }

  /** The first host whose answer is 200, with that answer. */
  async locate(
    request: IncomingMessage,
    path: string,
  ): Promise<{ host: Host; found: HostAnswer } | undefined> {
    const asked = await this.#askAll({ ...pick(request), method: 'GET' }, path);
    const has = asked.find(({ found }) => found?.answer.statusCode === 200);
    if (has?.found !== undefined) return { host: has.host, found: has.found };
    const missing = named(asked).unreachable_hosts;
    if (missing === undefined) return undefined;
    throw new AppError('upstream', `it may be on a host that does not answer: ${missing.join(', ')}`);
  }

  async #askAll(
    request: Pick<IncomingMessage, 'rawHeaders' | 'headers' | 'method'>,
    path: string,
  ): Promise<readonly Asked[]> {
    const hosts = this.#map.hosts().slice(0, MAX_ASKED_AT_ONCE);
    if (hosts.length === 0) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    const { method = 'GET' } = request;
    const own = toHostHeaders(request as IncomingMessage);
    const headers = own.flatMap((name, at) =>
      at % 2 === 0 && /^(?:authorization|prefer|accept|x-request-id)$/i.test(name)
        ? [name, own[at + 1] ?? '']
        : [],
    );
    const limit = AbortSignal.timeout(LIST_MS);
    const ask = async (host: Host): Promise<HostAnswer | undefined> => {
      const found = await this.#connections.send(host, { method, path, headers }, undefined, limit);
      return (found.answer.statusCode ?? 500) < 500 ? found : undefined;
    };
    return await Promise.all(
      hosts.map(async (host) => ({ host, found: await ask(host).catch(() => undefined) })),
    );
  }
}

function pick({ rawHeaders, headers }: IncomingMessage) {
  return { rawHeaders, headers };
}

/** Undefined when a host refused the request: its answer is the client’s. AppError upstream when none answered. */
function readBodies(asked: readonly Asked[], response: ServerResponse): unknown[] | undefined {
  const found = asked.flatMap((each) => each.found ?? []);
  const refused = found.find(({ answer: { statusCode = 500 } }) => statusCode !== 200);
  if (refused !== undefined) {
    answer(response, refused);
    return undefined;
  }
  if (found.length === 0) throw new AppError('upstream', 'no host of the fleet answers');
  return found.map(({ body }) => JSON.parse(body.toString()));
}

function named(asked: readonly Asked[]): { readonly unreachable_hosts?: string[] } {
  const names = asked.flatMap(({ host, found }) => (found === undefined ? [host.name] : []));
  return names.length === 0 ? {} : { unreachable_hosts: names.sort() };
}

/** Behind all others, so that a page that is cut has a cursor. */
const LAST = { id: '~', created_at: '9999-12-31T00:00:00.000Z' };

function toKey({ created_at, id }: z.output<typeof entry>) {
  return { atMs: Date.parse(created_at) || 0, name: id };
}

function compare(a: z.output<typeof entry>, b: z.output<typeof entry>): number {
  return toKey(a).atMs - toKey(b).atMs || (a.id < b.id ? -1 : 1);
}

export function send(response: ServerResponse, body: object): void {
  if (response.headersSent || response.destroyed) return;
  const text = JSON.stringify(body);
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
  });
  response.end(response.req.method === 'HEAD' ? undefined : text);
}
