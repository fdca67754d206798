// Requests that make sandboxes: a place for each from the engine, then the client's own body to the host of the place.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { REPLAYED } from '@sandboxd/api';
import PQueue from 'p-queue';
import { PLACE_HEADER, readWanted, WANTED_HEADER } from '../../http/index.ts';
import { AppError, isAppError } from '../../lib/errors.ts';
import { newId } from '../../lib/ids.ts';
import {
  type Catalogue,
  ClaimTaken,
  type FleetMap,
  type Host,
  type Place,
  type PlaceRequest,
} from '../catalogue.ts';
import { toSnapshotHolding } from '../kubernetes/holdings.ts';
import { writePlaceHeader } from '../place-header.ts';
import type { FleetSeal } from '../seal.ts';
import { type JsonBody, readJsonBody } from './body.ts';
import type { Callers } from './callers.ts';
import { type CreateRequest, KEY_CLAIM, toClaims, toCount, toRequest } from './create-request.ts';
import { toBodyHeaders, toClientHeaders } from './headers.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';
import { isKeyed, type KeyedRequests, signalOf } from './keyed.ts';

/** A second host is asked when the first refuses for lack of capacity. */
const ATTEMPTS = 2;
/** For what hosts recorded; those that do not answer are passed over. */
const KNOWN_MS = 3000;
const MAX_ASKED_AT_ONCE = 256;
/** The longest start pulls an image. */
const CREATE_MS = 15 * 60_000;
/** A second host is tried after it, also if the engine does not answer. */
const GIVE_BACK_MS = 2000;
/** Statuses by which a host has refused to use the place. */
const NO_CAPACITY = 503;
const MADE = 201;
/** Made later. */
const ACCEPTED = 202;
/** Also of other conflicts, which the host finds again. */
const NO_PLACE = 409;
/** The key of a retry came with another request: the place may be that of the first. */
const MISMATCH = 422;

export type CreatesDeps = {
  readonly catalogue: Catalogue;
  readonly map: FleetMap;
  readonly callers: Pick<Callers, 'find' | 'hosts'>;
  readonly keyed: KeyedRequests;
  readonly connections: Pick<HostConnections, 'send'>;
  readonly seal: FleetSeal;
  /** Undefined for what no host accepts. Absent: bodies are those of the REST interface. */
  readonly read?: (request: IncomingMessage, body: JsonBody) => Promise<CreateRequest | undefined>;
};

export type ForkSource = {
  readonly host: Host;
  readonly size: Pick<Place, 'vcpus' | 'memoryMib'>;
  readonly snapshot?: string | undefined;
};

type Call = {
  readonly request: IncomingMessage;
  readonly path: string;
  readonly body: JsonBody;
  readonly signal: AbortSignal;
};

export class Creates {
  readonly #deps: CreatesDeps;

  constructor(deps: CreatesDeps) {
    this.#deps = deps;
  }

  /** Rejects with what `Catalogue.place` and hosts reject with, and RefusedCaller. */
  async create(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const signal = signalOf(request, response);
    // Before anything of a body is kept.
    const caller = await this.#deps.callers.find(request, signal);
    using _slot = this.#deps.keyed.admit(request, caller);
    using body = await readJsonBody(request, response, caller);
    const call = { request, path, body, signal };
    const { read = async () => toRequest(body) } = this.#deps;
    const asking = await read(request, body);
    // A host says what is wrong; it makes nothing without a place.
    if (asking === undefined) return answer(response, await this.#sendAny(call));
    const known = isKeyed(request) ? await this.#findAnswer(call) : undefined;
    if (known !== undefined) return answer(response, known);
    const asked = { ...asking, tenant: caller.tenant, claims: toClaims(request, asking, caller) };
    answer(response, await this.#place(call, asked));
  }

  /** `host`: it has what is forked; `snapshot`: of which all hosts can get a copy; `size`: of one fork. */
  async fork(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    // Of a place nothing else: its move is that of its own sandbox.
    { host, size: { vcpus, memoryMib }, snapshot }: ForkSource,
  ): Promise<void> {
    const signal = signalOf(request, response);
    const caller = await this.#deps.callers.find(request, signal);
    using _slot = this.#deps.keyed.admit(request, caller);
    using body = await readJsonBody(request, response, caller);
    const call = { request, path, body, signal };
    const count = toCount(path, body);
    if (count === undefined) return answer(response, await this.#send(host, call));
    if (isKeyed(request)) {
      // The host knows whether it has carried it out, and refuses what is new for lack of places.
      const known = snapshot === undefined ? await this.#send(host, call) : await this.#findAnswer(call);
      if (known !== undefined && known.answer.statusCode !== NO_PLACE) return answer(response, known);
    }
    const place = (on: string | undefined, prefers?: string): Promise<Place> => {
      const asked = { vcpus, memoryMib, tenant: caller.tenant, id: newId('sbx'), on, prefers, claims: [] };
      return this.#deps.catalogue.place(asked, call.signal);
    };
    // All are on one host: that of the first, where any host will do. Retries with one key go to one host.
    const isAnywhere = snapshot !== undefined && !isKeyed(request);
    const one = isAnywhere ? await place(undefined, toSnapshotHolding(snapshot)) : undefined;
    const others = Array.from({ length: one === undefined ? count : count - 1 }, () =>
      place(one?.host ?? host.name),
    );
    const placing = await Promise.allSettled([
      ...(one === undefined ? [] : [Promise.resolve(one)]),
      ...others,
    ]);
    const places = placing.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const failed = placing.find((each) => each.status === 'rejected');
    if (failed !== undefined) {
      for (const place of places) void this.#deps.catalogue.forget(place);
      throw failed.reason;
    }
    const [first] = places;
    if (first !== undefined) answer(response, await this.#use(first, call, places));
  }

  /** A request to the host that `choose` finds by its body, which is sent again if that host wants a place for it. */
  async carry(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    choose: (body: JsonBody) => Promise<Host>,
  ): Promise<HostAnswer> {
    const signal = signalOf(request, response);
    const caller = await this.#deps.callers.find(request, signal);
    using _slot = this.#deps.keyed.admit(request, caller);
    using body = await readJsonBody(request, response, caller);
    const host = await choose(body);
    const call = { request, path, body, signal };
    const first = await this.#send(host, call);
    const { statusCode, headers } = first.answer;
    const size = statusCode === NO_PLACE ? readWanted(headers[WANTED_HEADER]) : undefined;
    if (size === undefined) return first;
    const asked = { ...size, tenant: caller.tenant, id: newId('sbx'), on: host.name, claims: [] };
    return await this.#use(await this.#deps.catalogue.place(asked, signal), call);
  }

  async #place(
    call: Call,
    { isCopied = false, ...asked }: Omit<PlaceRequest, 'id'> & Pick<CreateRequest, 'isCopied'>,
  ): Promise<HostAnswer> {
    const not = [...(asked.not ?? [])];
    const mayTryAgain = ({ answer: { statusCode } }: HostAnswer): boolean =>
      statusCode === NO_CAPACITY || (isCopied && statusCode === NO_PLACE && !isKeyed(call.request));
    for (let attempt = 1; ; attempt++) {
      const found = await this.#find({ ...asked, id: newId('sbx'), not }, call);
      if (!('id' in found)) return found;
      try {
        const made = await this.#use(found, call);
        const isLast = attempt === ATTEMPTS || asked.on !== undefined;
        if (!mayTryAgain(made) || isLast) return made;
      } catch (error) {
        const isLast = attempt === ATTEMPTS || asked.on !== undefined;
        if (isLast || !isAppError(error) || error.code !== 'upstream') throw error;
      }
      not.push(found.host ?? '');
    }
  }

  /** A place, or the answer about the sandbox that has the name or the key of the request. */
  async #find(asked: PlaceRequest, call: Call): Promise<Place | HostAnswer> {
    try {
      return await this.#deps.catalogue.place(asked, call.signal);
    } catch (error) {
      if (!(error instanceof ClaimTaken)) throw error;
      const { claim, place } = error;
      if (!claim.startsWith(KEY_CLAIM))
        return await this.#send(this.#hostOf(place), call, this.#prove('held', [place]));
      // From now on the first request does not give it back; its host drops it if nothing uses it.
      await this.#deps.catalogue.join(place, call.signal);
      return await this.#send(this.#hostOf(place), call, this.#prove('place', [place]));
    }
  }

  /** What the host did not make of its places, which are all there, is given back. */
  async #use(first: Place, call: Call, places: readonly Place[] = [first]): Promise<HostAnswer> {
    const how = { unlessJoined: isKeyed(call.request) };
    const giveBack = (): Promise<unknown> =>
      Promise.all(places.map((place) => this.#deps.catalogue.forget(place, how)));
    let isConnected = false;
    const onConnect = (): void => {
      isConnected = true;
    };
    try {
      const made = await this.#send(this.#hostOf(first), call, this.#prove('place', places), onConnect);
      const { statusCode, headers } = made.answer;
      const isDone = statusCode === MADE || statusCode === ACCEPTED;
      const isUsed = isDone && headers[REPLAYED.toLowerCase()] === undefined;
      if (!isUsed && statusCode !== MISMATCH) void giveBack();
      return made;
    } catch (error) {
      // With a key, a retry may have what came of it, from this host. It drops places that nothing uses.
      if (isConnected && isKeyed(call.request)) throw error;
      const given = giveBack();
      // The key is to be free when another host is tried.
      if (isKeyed(call.request)) await Promise.race([given, sleep(GIVE_BACK_MS, undefined, { ref: false })]);
      throw error;
    }
  }

  #prove(kind: 'place' | 'held', places: readonly Place[]): readonly string[] {
    const namespace = places[0]?.namespace ?? '';
    return [PLACE_HEADER, writePlaceHeader({ kind, namespace, places }, this.#deps.seal)];
  }

  async #send(
    host: Host,
    { request, path, body, signal }: Call,
    proof: readonly string[] = [],
    onConnect?: () => void,
  ): Promise<HostAnswer> {
    const { method = 'POST' } = request;
    const headers = [...toBodyHeaders(request), ...proof, 'Content-Length', String(body.bytes.length)];
    const limit = AbortSignal.any([signal, AbortSignal.timeout(CREATE_MS)]);
    const exchange = onConnect === undefined ? {} : { onConnect };
    return await this.#deps.connections.send(host, { method, path, headers }, body, limit, exchange);
  }

  /**
   * What the host that carried the request out recorded. It has the place no more if its sandbox was deleted, so all
   * are asked; they refuse what is new to them.
   */
  async #findAnswer(call: Call): Promise<HostAnswer | undefined> {
    const queue = new PQueue({ concurrency: MAX_ASKED_AT_ONCE });
    const limit = AbortSignal.any([call.signal, AbortSignal.timeout(KNOWN_MS)]);
    const isKnown = ({ answer: { statusCode, headers } }: HostAnswer): boolean =>
      headers[REPLAYED.toLowerCase()] !== undefined || statusCode === MISMATCH;
    const ask = async (host: Host): Promise<HostAnswer | undefined> => {
      const found = await this.#send(host, { ...call, signal: limit }).catch(() => undefined);
      return found !== undefined && isKnown(found) ? found : undefined;
    };
    const hosts = this.#deps.callers.hosts().filter(({ isReady }) => isReady);
    const asked = await Promise.all(hosts.map((host) => queue.add(() => ask(host))));
    return asked.find((found) => found !== undefined);
  }

  async #sendAny(call: Call): Promise<HostAnswer> {
    const [host] = this.#deps.callers.hosts();
    if (host === undefined) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    return await this.#send(host, call);
  }

  #hostOf({ host: name = '' }: Place): Host {
    const host = this.#deps.map.host(name);
    if (host !== undefined) return host;
    throw new AppError('upstream', `the engine chose ${name}, which is not a host of this fleet`);
  }
}

export function answer(
  response: ServerResponse,
  { answer: { statusCode, rawHeaders, headers }, body }: HostAnswer,
): void {
  if (response.headersSent || response.destroyed) return;
  const kept = toClientHeaders({ rawHeaders, headers } as IncomingMessage);
  const plain = kept.flatMap((name, at) =>
    at % 2 === 0 && name.toLowerCase() !== 'content-length' ? [name, kept[at + 1] ?? ''] : [],
  );
  // The rest of a body that is not read is not the next request.
  if (!response.req.complete) response.shouldKeepAlive = false;
  response.writeHead(statusCode ?? 502, [...plain, 'Content-Length', String(body.length)]);
  response.end(body);
}
