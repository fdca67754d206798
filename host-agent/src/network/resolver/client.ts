// One sandbox as the resolver sees it: its allowlist, rate limit and pending queries.
import PQueue from 'p-queue';
import { AppError } from '../../lib/errors.ts';
import { formatIpv4, parseIpv4 } from '../../lib/ipv4.ts';
import { TokenBucket } from '../../lib/token-bucket.ts';
import { type AddressPolicy, denialReason } from '../special-addresses.ts';
import type { Answer, Question } from './message.ts';
import type { Found, Upstream } from './upstream.ts';

/** TTL bounds for answers to the guest, whatever the authoritative server sets. */
const MIN_TTL_S = 1;
const MAX_TTL_S = 3600;
/**
 * An address stays open at least this long, even if its TTL is shorter: programs cache addresses for times of their own
 * (a JVM 30 s, libcurl 60 s) or try the other addresses of an answer first. A guest that may query the name could
 * re-open the address at any time anyway.
 */
const MIN_OPEN_S = 60;
/** Upper bound of addresses per answer; no honest name has more. */
const MAX_ADDRESSES = 64;
/** Concurrent upstream queries of one sandbox, and queries that wait for them. Further queries are dropped. */
const CONCURRENCY = 32;
const MAX_WAITING = 2048;
/** Rate limit of queries, UDP and TCP together, of any type. The nftables rules let through about as many. */
const PER_S = 250;
const BURST = 2500;

export type ClientOptions = {
  /** The names that are resolved. They may change. */
  readonly names: AllowedNames;
  readonly addresses: AddressPolicy;
  readonly upstream: Upstream;
  /** Lets the guest reach these addresses of the name; resolves when it can. */
  readonly open: (addresses: readonly Found[], name: string) => Promise<void>;
  /** Called for a name that was denied, with the reason. */
  readonly onDenied: (name: string, reason: string) => void;
  /** Called when the lookup failed; the guest gets SERVFAIL. */
  readonly onFailed: (name: string, error: unknown, step: FailedStep) => void;
};

/** Names are normalized. */
export interface AllowedNames {
  allows(name: string): boolean;
  /** Whether an allowed name is below `name`. */
  isAboveAllowed(name: string): boolean;
}

/** Step that failed: the upstream query, or opening the addresses. */
export type FailedStep = 'ask' | 'open';

const NO_SUCH_NAME: Answer = { rcode: 'noSuchName' };
const NO_DATA: Answer = { rcode: 'ok' };
/** RFC 6761: some client libraries do not resolve localhost names themselves. No address is opened for them. */
const LOCALHOST = /(?:^|\.)localhost$/;
const ITSELF: Answer = { rcode: 'ok', records: [{ address: '127.0.0.1', ttlS: MAX_TTL_S }] };

export class ResolverClient {
  readonly #options: ClientOptions;
  readonly #queue = new PQueue({ concurrency: CONCURRENCY });
  /** Pending answers by name: concurrent queries for one name share one upstream query. */
  readonly #pending = new Map<string, Promise<Answer>>();
  /** Number of open TCP connections. */
  connections = 0;
  readonly #bucket = new TokenBucket(PER_S, BURST);

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** Rate limit: must be called for each query before any other work on it. */
  admits(): boolean {
    return this.#bucket.take();
  }

  /** Undefined if the sandbox has too many pending queries. Never rejects. */
  answer({ name, type }: Pick<Question, 'name' | 'type'>): Promise<Answer | undefined> | Answer {
    if (LOCALHOST.test(name)) return type === 'A' ? ITSELF : NO_DATA;
    const { names, onDenied } = this.#options;
    if (!names.allows(name)) {
      onDenied(name, 'not in the allowlist');
      return names.isAboveAllowed(name) ? NO_DATA : NO_SUCH_NAME;
    }
    // Only address records are resolved; any other type would be a channel for data exfiltration.
    if (type !== 'A') return NO_DATA;
    const pending = this.#pending.get(name);
    if (pending !== undefined) return pending;
    if (this.#queue.size >= MAX_WAITING) return Promise.resolve(undefined);
    const answer = this.#queue.add(() => this.#resolve(name)).finally(() => this.#pending.delete(name));
    this.#pending.set(name, answer);
    return answer;
  }

  /** Of an allowed name, as the guest would get them; open when it resolves. Rejects if they are not known. */
  async addressesOf(name: string): Promise<string[]> {
    // The guest's own host.
    if (LOCALHOST.test(name)) return [];
    const answer = await this.answer({ name, type: 'A' });
    if (answer === undefined || answer.rcode === 'failed')
      throw new AppError('upstream', `the addresses of ${name} are not known`);
    return (answer.records ?? []).map(({ address }) => address);
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
        await open(
          records.map(({ address, ttlS }) => ({ address, ttlS: Math.max(MIN_OPEN_S, ttlS) })),
          name,
        );
      return { rcode: 'ok', records };
    } catch (error) {
      onFailed(name, error, step);
      return { rcode: 'failed' };
    }
  }

  #filter(name: string, found: readonly Found[]): Found[] {
    const allowed = new Map<string, Found>();
    for (const { address, ttlS } of found) {
      const parsed = parseIpv4(address);
      if (parsed === undefined) throw new AppError('internal', `${name} has the odd address ${address}`);
      const kind = denialReason(parsed, this.#options.addresses);
      if (kind !== undefined) this.#options.onDenied(name, `its address ${address} is ${kind}`);
      else if (allowed.size < MAX_ADDRESSES)
        allowed.set(formatIpv4(parsed), { address, ttlS: clampTtl(ttlS) });
    }
    return [...allowed.values()];
  }
}

function clampTtl(ttlS: number): number {
  return Math.min(MAX_TTL_S, Math.max(MIN_TTL_S, Math.trunc(ttlS) || 0));
}
