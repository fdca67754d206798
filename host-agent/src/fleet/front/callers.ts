// Whose request it is. The hosts have the keys and check them for each request; the gateway asks one of them for the
// tenant before it takes a place, and remembers the answer for a moment.
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import type { FleetMap, Host } from '../catalogue.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';

const KEPT_MS = 10_000;
const MAX_KEPT = 10_000;
const ASK_MS = 5000;
const MAX_ASKED = 3;

const answerBody = z.object({ tenant: z.string().optional() });

export type Caller = {
  readonly tenant: string | undefined;
  /** Of the key, not the key. */
  readonly digest: string;
  /** Whether the request had one. */
  readonly hasKey: boolean;
};

/** A host refused the key: its answer is the client's. */
export class RefusedCaller extends Error {
  readonly refusal: HostAnswer;

  constructor(refusal: HostAnswer) {
    super('a host refused the key');
    this.refusal = refusal;
  }
}

export class Callers {
  readonly #map: FleetMap;
  readonly #connections: HostConnections;
  readonly #kept = new Map<string, { readonly caller: Caller; readonly untilMs: number }>();
  #turn = 0;

  constructor(map: FleetMap, connections: HostConnections) {
    this.#map = map;
    this.#connections = connections;
  }

  /** Ready hosts first, each time beginning with another. */
  hosts(): Host[] {
    const all = this.#map.hosts();
    this.#turn = (this.#turn + 1) % Math.max(1, all.length);
    const turned = [...all.slice(this.#turn), ...all.slice(0, this.#turn)];
    return [...turned.filter(({ isReady }) => isReady), ...turned.filter(({ isReady }) => !isReady)];
  }

  /** RefusedCaller; AppError exhausted when no host answers. */
  async find({ headers }: Pick<IncomingMessage, 'headers'>, signal: AbortSignal): Promise<Caller> {
    const { authorization = '' } = headers;
    const digest = createHash('sha256').update(authorization).digest('base64url');
    const kept = this.#kept.get(digest);
    if (kept !== undefined && kept.untilMs > performance.now()) return kept.caller;
    const answer = await this.#ask(authorization, signal);
    if (answer.answer.statusCode !== 200) throw new RefusedCaller(answer);
    const { tenant } = answerBody.parse(JSON.parse(answer.body.toString()));
    const caller = { tenant, digest, hasKey: authorization !== '' };
    // The oldest is the first.
    if (this.#kept.size >= MAX_KEPT) this.#kept.delete(this.#kept.keys().next().value ?? '');
    this.#kept.delete(digest);
    this.#kept.set(digest, { caller, untilMs: performance.now() + KEPT_MS });
    return caller;
  }

  async #ask(authorization: string, signal: AbortSignal): Promise<HostAnswer> {
    const headers = authorization === '' ? [] : ['Authorization', authorization];
    for (const host of this.hosts().slice(0, MAX_ASKED)) {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]);
      const request = { method: 'GET', path: '/whoami', headers };
      const answer = await this.#connections.send(host, request, undefined, limit).catch(() => undefined);
      if (answer !== undefined && (answer.answer.statusCode ?? 500) < 500) return answer;
      signal.throwIfAborted();
    }
    throw new AppError('exhausted', 'no host of the fleet answers', { retryAfterS: 5 });
  }
}
