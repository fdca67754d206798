// Sandboxes that only the snapshot store has, as their host was lost after it had offered them: a host looks there with
// the client's own key, and whatever needs the guest or its files waits until a host has it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ASK_PARKED, PARKED_HEADER, readParked } from '../../http/index.ts';
import { AppError, isAppError } from '../../lib/errors.ts';
import { isId } from '../../lib/ids.ts';
import type { Catalogue, FleetMap } from '../catalogue.ts';
import { AskLimits } from './ask-limits.ts';
import { type Callers, clientOf, RefusedCaller } from './callers.ts';
import { pickHostHeaders } from './headers.ts';
import type { HostAnswer, HostConnections, HostRequest } from './host-connections.ts';

const ASK_MS = 12_000;
/** Lists of hosts wait for as long. */
const LIST_MS = 5000;
/** A host that does not answer may be lost: another one is asked, too. */
const MAX_ASKED = 2;
const KEPT_HEADERS = ['authorization', 'x-api-key', 'prefer', 'accept', 'x-request-id'];

export type ParkedDeps = {
  readonly catalogue: Pick<Catalogue, 'restore' | 'forget'>;
  readonly map: Pick<FleetMap, 'isCurrent' | 'find' | 'mayHave'>;
  readonly callers: Pick<Callers, 'find' | 'hosts'>;
  readonly connections: Pick<HostConnections, 'send'>;
};

export type Question = {
  /** Of the sandbox. */
  readonly id: string;
  readonly path: string;
  /** Absent: that of the request. */
  readonly method?: string;
  /** Absent: as the request has it. */
  readonly authorization?: string | undefined;
  readonly signal: AbortSignal;
};

export class Parked {
  readonly #deps: ParkedDeps;
  readonly #limits: AskLimits;

  constructor(deps: ParkedDeps, limits = new AskLimits()) {
    this.#deps = deps;
    this.#limits = limits;
  }

  /** Whether the store may have a sandbox, after a failure to find its place. */
  mayHave(id: string, failure: unknown): boolean {
    if (!isId('sbx', id) || !isAppError(failure)) return false;
    const { map } = this.#deps;
    const place = map.find(id);
    // A host may have it without a place, or only the store.
    const isHidden = map.isCurrent && place === undefined && map.mayHave(id);
    return failure.code === 'not_found' || isHidden || place?.isAwaited === true;
  }

  /**
   * What a host answers to the same request without its body: about what the store has. Undefined: the store does not
   * have it. RefusedCaller for a key; AppError exhausted for too many questions, upstream.
   */
  async ask(request: IncomingMessage, question: Question): Promise<HostAnswer | undefined> {
    const { signal } = question;
    const caller = await this.#deps.callers.find(request, signal);
    this.#limits.count(clientOf(caller), caller.tenant);
    const found = await this.#send(request, question);
    const { statusCode = 502 } = found.answer;
    if ((question.method ?? request.method) === 'DELETE' && statusCode < 300) this.#forgetPlace(question.id);
    return statusCode === 404 ? undefined : found;
  }

  /** It was deleted before a host was found for it; a host that was found gives the place back itself. */
  #forgetPlace(id: string): void {
    const { map, catalogue } = this.#deps;
    const place = map.find(id);
    if (place?.isAwaited === true && place.host === undefined) void catalogue.forget(place);
  }

  /** As `ask`, of all that a host sees in the store; after the key of the request was checked. */
  async list(request: IncomingMessage, path: string): Promise<HostAnswer> {
    return await this.#send(request, { path, signal: AbortSignal.timeout(LIST_MS) });
  }

  /** Resolves when a host has the sandbox that an answer is about. RefusedCaller; AppError as of `restore`. */
  async restore(id: string, found: HostAnswer, signal: AbortSignal): Promise<void> {
    const parked = readParked([found.answer.headers[PARKED_HEADER]].flat()[0] ?? '');
    if (parked === undefined) throw new RefusedCaller(found);
    await this.#deps.catalogue.restore({ id, ...parked }, signal);
  }

  async #send(
    request: IncomingMessage,
    { path, method, authorization, signal }: Omit<Question, 'id'>,
  ): Promise<HostAnswer> {
    const kept = pickHostHeaders(request, authorization === undefined ? KEPT_HEADERS : []);
    const asked: HostRequest = {
      method: method ?? request.method ?? 'GET',
      path,
      headers: [
        ...kept,
        ...(authorization === undefined ? [] : ['Authorization', authorization]),
        ...[PARKED_HEADER, ASK_PARKED, 'Content-Length', '0'],
      ],
    };
    const limit = AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]);
    let failure: unknown = new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    for (const host of this.#deps.callers.hosts().slice(0, MAX_ASKED))
      try {
        return await this.#deps.connections.send(host, asked, undefined, limit);
      } catch (error) {
        limit.throwIfAborted();
        failure = error;
      }
    throw failure;
  }
}

/** A signal that aborts when the client leaves. */
export function untilClosed(lifetime: ServerResponse | IncomingMessage['socket']): AbortSignal {
  const left = new AbortController();
  const leave = (): void => left.abort(new AppError('cancelled', 'the client left before the answer'));
  if (lifetime.destroyed) leave();
  else lifetime.once('close', leave);
  return left.signal;
}
