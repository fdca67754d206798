// Whose request it is. The hosts have the keys and check them for each request; the gateway asks one of them for the
// tenant before it takes a place, and remembers the answer for a moment.
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import type { FleetMap, Host } from '../catalogue.ts';
import { clientHeader } from './headers.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';
import { readAnswer } from './json.ts';

const KEPT_MS = 10_000;
const MAX_KEPT = 10_000;
/** A host that does not answer for so long may be lost: another is asked, too. */
const NEXT_MS = 3000;
/** A host lets a client that guesses keys wait for 10 s. */
const ASK_MS = 12_000;
const MAX_ASKED = 3;

const answerBody = z.object({ tenant: z.string().optional() });

export type Caller = {
  readonly tenant: string | undefined;
  /** Of the key, not the key; the same however the header writes it. */
  readonly digest: string;
  /** Whether the request had one. */
  readonly hasKey: boolean;
};

/** What limits count by: the key; undefined for a client without one, which only the limits for all concern. */
export function clientOf({ digest, hasKey }: Pick<Caller, 'digest' | 'hasKey'>): string | undefined {
  return hasKey ? digest : undefined;
}

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

  /** The key of a request, before it is checked. */
  identify({ headers }: Pick<IncomingMessage, 'headers'>): Pick<Caller, 'digest' | 'hasKey'> {
    return identify(headers.authorization ?? '');
  }

  /** RefusedCaller; AppError exhausted when no host answers. */
  async find({ headers }: Pick<IncomingMessage, 'headers'>, signal: AbortSignal): Promise<Caller> {
    const { authorization = '' } = headers;
    const { digest, hasKey } = identify(authorization);
    const kept = this.#kept.get(digest);
    if (kept !== undefined && kept.untilMs > performance.now()) return kept.caller;
    const answer = await this.#ask(authorization, clientHeader({ headers }), signal);
    if (answer.answer.statusCode !== 200) throw new RefusedCaller(answer);
    const tenant = readAnswer(answerBody, answer)?.tenant;
    const caller = { tenant, digest, hasKey };
    // The oldest is the first.
    if (this.#kept.size >= MAX_KEPT) this.#kept.delete(this.#kept.keys().next().value ?? '');
    this.#kept.delete(digest);
    this.#kept.set(digest, { caller, untilMs: performance.now() + KEPT_MS });
    return caller;
  }

  /** As `find`, until the client leaves. */
  async findFor(request: Pick<IncomingMessage, 'headers'>, response: ServerResponse): Promise<Caller> {
    const left = new AbortController();
    const leave = (): void => left.abort(new AppError('cancelled', 'the client left before the answer'));
    if (response.destroyed) leave();
    response.once('close', leave);
    try {
      return await this.find(request, left.signal);
    } finally {
      response.off('close', leave);
    }
  }

  async #ask(authorization: string, client: readonly string[], signal: AbortSignal): Promise<HostAnswer> {
    signal.throwIfAborted();
    const headers = [...(authorization === '' ? [] : ['Authorization', authorization]), ...client];
    const done = new AbortController();
    const limit = AbortSignal.any([signal, done.signal, AbortSignal.timeout(ASK_MS)]);
    const asked: Promise<HostAnswer>[] = [];
    const first = (): Promise<HostAnswer | undefined> => Promise.any(asked).catch(() => undefined);
    try {
      for (const host of this.hosts().slice(0, MAX_ASKED)) {
        asked.push(this.#askHost(host, headers, limit));
        const later = sleep(NEXT_MS, undefined, { signal: limit, ref: false }).catch(() => undefined);
        const found = await Promise.race([first(), later]);
        if (found !== undefined) return found;
        signal.throwIfAborted();
      }
      const found = await first();
      if (found !== undefined) return found;
    } finally {
      done.abort();
    }
    signal.throwIfAborted();
    throw new AppError('exhausted', 'no host of the fleet answers', { retryAfterS: 5 });
  }

  async #askHost(host: Host, headers: readonly string[], limit: AbortSignal): Promise<HostAnswer> {
    const request = { method: 'GET', path: '/whoami', headers };
    const found = await this.#connections.send(host, request, undefined, limit);
    const { statusCode = 500 } = found.answer;
    const isUsable = statusCode === 200 ? readAnswer(answerBody, found) !== undefined : statusCode < 500;
    if (isUsable) return found;
    throw new Error(`it answers with status ${statusCode}, or with anything`);
  }
}

/** The key as hosts read it. What they read as none is one client. */
export function identify(authorization: string): Pick<Caller, 'digest' | 'hasKey'> {
  const key = /^bearer +(\S+) *$/i.exec(authorization)?.[1];
  const text = key === undefined ? '' : `Bearer ${key}`;
  return {
    digest: createHash('sha256').update(text).digest('base64url'),
    hasKey: key !== undefined,
  };
}
