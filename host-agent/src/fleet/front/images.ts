// Images of a fleet: each host has its own. Lists say which hosts have one; a pull is for all hosts, or for those that
// the request names; a delete is of all that have it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { toPage } from '../../http/input/page.ts';
import { AppError, toError } from '../../lib/errors.ts';
import type { FleetMap, Host } from '../catalogue.ts';
import { type JsonBody, readJsonBody, Sending } from './body.ts';
import type { Callers } from './callers.ts';
import { answer } from './creates.ts';
import { type Asked, type FanOut, isDone, keyRefusalOf, refusalOf } from './fan-out.ts';
import { pickHostHeaders } from './headers.ts';
import type { HostConnections } from './host-connections.ts';
import { parseJson } from './json.ts';
import { type KeyedRequests, signalOf } from './keyed.ts';
import { send } from './lists.ts';
import { PullLines } from './pull-lines.ts';

const CHANGE_MS = 30_000;
/** As a host waits for a registry. */
const PULL_MS = 15 * 60_000;
const MAX_NAMED = 64;
const KEPT_HEADERS = ['authorization', 'prefer', 'content-type', 'idempotency-key', 'x-request-id'];

const image = z.looseObject({
  digest: z.string(),
  refs: z.array(z.string()).optional(),
  converted_at_unix_ms: z.number(),
  storage: z.string().optional(),
});
type Image = z.output<typeof image>;
const imageList = z.object({ images: z.array(image), store_error: z.string().optional() });
const refusal = z.object({ error: z.string() });

const [LOCAL, STORED, REMOTE] = ['local', 'stored', 'remote'];

type Copy = { readonly host: string; readonly image: Image };

export type FleetImagesDeps = {
  readonly map: FleetMap;
  readonly fanOut: FanOut;
  readonly keyed: KeyedRequests;
  readonly callers: Callers;
  readonly connections: HostConnections;
};

export class FleetImages {
  readonly #deps: FleetImagesDeps;

  constructor(deps: FleetImagesDeps) {
    this.#deps = deps;
  }

  /** The refusal of a host is the client’s answer. AppError exhausted, upstream, invalid_argument for a cursor. */
  async list(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const query = new URLSearchParams(path.split('?')[1] ?? '');
    const [limit, cursor] = [query.get('limit'), query.get('cursor')];
    // Hosts have the same image since different times.
    for (const name of ['limit', 'cursor']) query.delete(name);
    const asked = await this.#deps.fanOut.askAll(
      request,
      response,
      query.size === 0 ? '/images' : `/images?${query}`,
    );
    const found = asked.flatMap(({ host, found }) => {
      const { data } = imageList.safeParse(found && parseJson(found.body.toString()));
      return data === undefined ? [] : [{ host: host.name, images: data.images, problem: data.store_error }];
    });
    if (found.length === 0) return refuse(asked, response);
    const copies = found.flatMap(({ host, images }) => images.map((each) => ({ host, image: each })));
    const merged = [...Map.groupBy(copies, (copy) => copy.image.digest).values()].map(merge);
    const { entries, next } = toPage(
      merged.toSorted((a, b) => a.converted_at_unix_ms - b.converted_at_unix_ms),
      ({ converted_at_unix_ms: atMs, digest: name }) => ({ atMs, name }),
      { ...(limit && { limit: toLimit(limit) }), ...(cursor && { cursor }) },
    );
    const names = new Set(found.map(({ host }) => host));
    const missing = asked.flatMap(({ host }) => (names.has(host.name) ? [] : [host.name])).sort();
    const problem = found.find((each) => each.problem !== undefined)?.problem;
    send(response, {
      images: entries,
      ...next,
      ...(missing.length > 0 && { unreachable_hosts: missing }),
      ...(problem !== undefined && { store_error: problem }),
    });
  }

  /** Of the hosts that have it; if the name leads to several, that which was converted last. */
  async get(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const asked = await this.#deps.fanOut.askAll(request, response, path);
    const newest = mergedOf(asked);
    if (newest !== undefined) return send(response, newest);
    const missing = asked.flatMap(({ host, found }) => (found === undefined ? [host.name] : [])).sort();
    const isKnown = missing.length === asked.length || missing.length === 0;
    if (isKnown || keyRefusalOf(asked) !== undefined) return refuse(asked, response);
    throw toHidden(missing);
  }

  /** Of all hosts that have it. AppError upstream names those that have not done it. */
  async change(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    method: 'PATCH' | 'DELETE',
  ): Promise<void> {
    const caller = await this.#deps.callers.findFor(request, response);
    using body = await readJsonBody(request, response, caller);
    const signal = AbortSignal.timeout(CHANGE_MS);
    const asked = await this.#sendAll(request, this.#deps.map.hosts(), {
      path,
      method,
      body,
      signal,
    });
    const done = asked.filter((each) => isDone(each));
    // One that does not have it, and asks the bucket in vain, has nothing to do once another has deleted it.
    const ignored = method === 'DELETE' && done.length > 0 ? [404, 502] : [404];
    const failed = asked.filter(
      (each) => !isDone(each) && !ignored.includes(each.found?.answer.statusCode ?? 0),
    );
    if (done.length === 0 && failed.length === 0) return refuse(asked, response);
    const away = failed.flatMap(({ host, found }) => (found === undefined ? [host.name] : []));
    if (done.length === 0 && away.length === failed.length && away.length < asked.length)
      throw toHidden(away);
    if (done.length === 0) return refuse(failed, response);
    if (failed.length > 0) throw toPartial(method === 'DELETE' ? 'deleted' : 'changed', done, failed);
    const best = done[0]?.found;
    const image = mergedOf(done);
    if (method === 'PATCH' && image !== undefined) return send(response, image);
    if (best !== undefined) answer(response, best);
  }

  /** `?host=h0,h1`: only there. As a host, it answers with the image, or with lines of progress. */
  async pull(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const caller = await this.#deps.callers.findFor(request, response);
    using _slot = this.#deps.keyed.admit(request, caller);
    using body = await readJsonBody(request, response, caller);
    const query = new URLSearchParams(path.split('?')[1] ?? '');
    const hosts = this.#choose(query.get('host'));
    query.delete('host');
    const to = query.size === 0 ? '/images' : `/images?${query}`;
    const signal = AbortSignal.any([signalOf(request, response), AbortSignal.timeout(PULL_MS)]);
    if ((request.headers.accept ?? '').includes('application/x-ndjson')) {
      const headers = this.#headersOf(request, body, 'application/x-ndjson');
      const lines = new PullLines({ response, connections: this.#deps.connections, signal });
      return await lines.run(hosts, { method: 'POST', path: to, headers }, body);
    }
    const asked = await this.#sendAll(request, hosts, { path: to, method: 'POST', body, signal });
    const done = asked.filter((each) => isDone(each));
    const failed = asked.filter((each) => !isDone(each));
    if (done.length === 0) return refuse(failed, response);
    if (failed.length > 0) throw toPartial('pulled', done, failed);
    const image = mergedOf(done);
    if (image !== undefined) send(response, image, 201);
  }

  /** AppError invalid_argument for a name that no host has. */
  #choose(names: string | null): readonly Host[] {
    const all = this.#deps.map.hosts();
    if (all.length === 0) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    if (names === null || names === '') return all;
    const wanted = names.split(',', MAX_NAMED);
    const unknown = wanted.find((name) => this.#deps.map.host(name) === undefined);
    if (unknown === undefined) return all.filter(({ name }) => wanted.includes(name));
    throw new AppError(
      'invalid_argument',
      `query host: the fleet has no host ${JSON.stringify(unknown.slice(0, 80))}; GET /hosts lists them`,
    );
  }

  #headersOf(request: IncomingMessage, body: JsonBody, accept: string): string[] {
    const kept = pickHostHeaders(request, KEPT_HEADERS);
    return [...kept, 'Accept', accept, 'Content-Length', String(body.bytes.length)];
  }

  async #sendAll(
    request: IncomingMessage,
    hosts: readonly Host[],
    {
      path,
      method,
      body,
      signal,
    }: {
      readonly path: string;
      readonly method: string;
      readonly body: JsonBody;
      readonly signal: AbortSignal;
    },
  ): Promise<readonly Asked[]> {
    if (hosts.length === 0) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    const headers = this.#headersOf(request, body, 'application/json');
    const sending = new Sending(body, hosts.length);
    const ask = async (host: Host): Promise<Asked> => {
      using sent = sending.begin();
      try {
        return {
          host,
          found: await this.#deps.connections.send(host, { method, path, headers }, body, signal, sent),
        };
      } catch (error) {
        return { host, found: undefined, failure: toError(error).message };
      }
    };
    return await Promise.all(hosts.map(ask));
  }
}

/** The refusal of a host. AppError upstream when none answered. */
function refuse(asked: readonly Asked[], response: ServerResponse): void {
  const refused = refusalOf(asked) ?? asked.find(({ found }) => found !== undefined)?.found;
  if (refused === undefined) throw new AppError('upstream', 'no host of the fleet answers');
  answer(response, refused);
}

function toHidden(hosts: readonly string[]): AppError {
  return new AppError('upstream', `it may be on a host that does not answer: ${hosts.toSorted().join(', ')}`);
}

function toPartial(verb: string, done: readonly Asked[], failed: readonly Asked[]): AppError {
  const reasons = failed.map((each) => `${each.host.name} (${reasonOf(each)})`).sort();
  const names = done.map(({ host }) => host.name).sort();
  return new AppError(
    'upstream',
    `the image is ${verb} on ${names.join(', ')}, and not on ${reasons.join(', ')}`,
  );
}

function reasonOf({ found, failure }: Asked): string {
  if (found === undefined) return failure ?? 'it does not answer';
  const { data } = refusal.safeParse(parseJson(found.body.toString()));
  return data?.error ?? `status ${found.answer.statusCode}`;
}

/** The image that hosts answered with; of several, that which was converted last. */
function mergedOf(asked: readonly Asked[]) {
  const copies = asked.flatMap((each) => {
    const { data } = image.safeParse(isDone(each) ? parseJson(each.found?.body.toString() ?? '') : undefined);
    return data === undefined ? [] : [{ host: each.host.name, image: data }];
  });
  return [...Map.groupBy(copies, (copy) => copy.image.digest).values()]
    .map(merge)
    .sort((a, b) => a.converted_at_unix_ms - b.converted_at_unix_ms)
    .at(-1);
}

/** Of one digest. What hosts know of the bucket alone is of no host. */
function merge(copies: readonly Copy[]) {
  const sorted = copies.toSorted((a, b) => (a.host < b.host ? -1 : 1));
  const own = sorted.filter((copy) => copy.image.storage !== REMOTE);
  const images = (own.length > 0 ? own : sorted).map((copy) => copy.image);
  const refs = [...new Set(images.flatMap(({ refs = [] }) => refs))].sort();
  const isStored = sorted.some(({ image: { storage = LOCAL } }) => storage !== LOCAL);
  return {
    ...(images[0] as Image),
    ...(refs.length > 0 && { refs }),
    converted_at_unix_ms: Math.min(...images.map(({ converted_at_unix_ms: ms }) => ms)),
    ...(own.length > 0 && isStored && { storage: STORED }),
    hosts: own.map(({ host }) => host),
  };
}

function toLimit(text: string): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1) return limit;
  throw new AppError(
    'invalid_argument',
    `query limit must be a whole number from 1, got ${JSON.stringify(text.slice(0, 80))}`,
  );
}
