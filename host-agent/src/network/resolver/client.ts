// One sandbox as the resolver knows it: what it may ask, what its names led to, and how much of it is being done.
import PQueue from 'p-queue';
import { AppError } from '../../lib/errors.ts';
import { formatIpv4, parseIpv4 } from '../../lib/ipv4.ts';
import { TokenBucket } from '../../lib/token-bucket.ts';
import { type AddressPolicy, whyNot } from '../special-ranges.ts';
import type { Answer, Question } from './message.ts';
import { Allowlist } from './names.ts';
import type { Found, Upstream } from './upstream.ts';

/** An answer lives at least and at most so long, whatever the name's own server says. */
const MIN_TTL_S = 1;
const MAX_TTL_S = 3600;
/**
 * An address is open at least so long, however short its answer lives: programs keep addresses for times of their own (a JVM 30 s,
 * libcurl 60 s), or try the other ones of an answer first. Whoever may ask for the name could open it anew at any time.
 */
const MIN_OPEN_S = 60;
/** More addresses than an answer of any honest name has. */
const MAX_ADDRESSES = 64;
/** Names of one sandbox that are asked for at once, and that wait for it; each further question is left unanswered. */
const CONCURRENCY = 32;
const MAX_WAITING = 2048;
/** Questions that are heard, by UDP and TCP together, of whatever kind. The kernel has let through about as many. */
const PER_S = 250;
const BURST = 2500;

export type ClientOptions = {
  readonly allowlist: readonly string[];
  readonly addresses: AddressPolicy;
  readonly upstream: Upstream;
  /** Lets the guest reach these from now on; resolves when it can. */
  readonly open: (addresses: readonly Found[]) => Promise<void>;
  /** A name that was not answered as it was asked, and why. */
  readonly onDenied: (name: string, why: string) => void;
  /** Nobody could say; the guest is told so. */
  readonly onFailed: (name: string, error: unknown, step: FailedStep) => void;
};

/** Name servers were asked for it, or what they said was to be opened. */
export type FailedStep = 'ask' | 'open';

const NO_SUCH_NAME: Answer = { rcode: 'noSuchName' };
const NO_DATA: Answer = { rcode: 'ok' };
/** Not every library knows this by itself (RFC 6761). Nothing is to be opened for it. */
const LOCALHOST = /(?:^|\.)localhost$/;
const ITSELF: Answer = { rcode: 'ok', records: [{ address: '127.0.0.1', ttlS: MAX_TTL_S }] };

export class ResolverClient {
  readonly #options: ClientOptions;
  readonly #allowlist: Allowlist;
  readonly #queue = new PQueue({ concurrency: CONCURRENCY });
  /** By name: who asks for the same at the same time waits for the same answer. */
  readonly #asking = new Map<string, Promise<Answer>>();
  /** Connections by TCP that are open. */
  connections = 0;
  readonly #bucket = new TokenBucket(PER_S, BURST);

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#allowlist = new Allowlist(options.allowlist);
  }

  /** Whether one more question is heard now; to be asked before anything is done with it. */
  hears(): boolean {
    return this.#bucket.take();
  }

  /** Undefined where there is too much to do for this sandbox. Never rejects. */
  answer({ name, type }: Question): Promise<Answer | undefined> | Answer {
    if (LOCALHOST.test(name)) return type === 'A' ? ITSELF : NO_DATA;
    if (!this.#allowlist.allows(name)) {
      this.#options.onDenied(name, 'not in the allowlist');
      return this.#allowlist.isAboveAllowed(name) ? NO_DATA : NO_SUCH_NAME;
    }
    // Only addresses lead anywhere; the rest would be a way out for data.
    if (type !== 'A') return NO_DATA;
    const asking = this.#asking.get(name);
    if (asking !== undefined) return asking;
    if (this.#queue.size >= MAX_WAITING) return Promise.resolve(undefined);
    const answer = this.#queue.add(() => this.#resolve(name)).finally(() => this.#asking.delete(name));
    this.#asking.set(name, answer);
    return answer;
  }

  async #resolve(name: string): Promise<Answer> {
    const { upstream, open, onFailed } = this.#options;
    let step: FailedStep = 'ask';
    try {
      const found = await upstream.resolve(name);
      if (found === undefined) return NO_SUCH_NAME;
      const records = this.#filter(name, found);
      step = 'open';
      if (records.length > 0)
        await open(records.map(({ address, ttlS }) => ({ address, ttlS: Math.max(MIN_OPEN_S, ttlS) })));
      return { rcode: 'ok', records };
    } catch (error) {
      onFailed(name, error, step);
      return { rcode: 'failed' };
    }
  }

  #filter(name: string, found: readonly Found[]): Found[] {
    const kept = new Map<string, Found>();
    for (const { address, ttlS } of found) {
      const parsed = parseIpv4(address);
      if (parsed === undefined) throw new AppError('internal', `${name} has the odd address ${address}`);
      const kind = whyNot(parsed, this.#options.addresses);
      if (kind !== undefined) this.#options.onDenied(name, `its address ${address} is ${kind}`);
      else if (kept.size < MAX_ADDRESSES) kept.set(formatIpv4(parsed), { address, ttlS: clampTtl(ttlS) });
    }
    return [...kept.values()];
  }
}

function clampTtl(ttlS: number): number {
  return Math.min(MAX_TTL_S, Math.max(MIN_TTL_S, Math.trunc(ttlS) || 0));
}
