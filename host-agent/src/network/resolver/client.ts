// One sandbox as the resolver sees it: its allowlist, rate limit and pending queries.
import PQueue from 'p-queue';
import { AppError } from '../../lib/errors.ts';
import { formatIpv4, type Ipv4Range, isInRange, parseIpv4, parseIpv4Range } from '../../lib/ipv4.ts';
import { TokenBucket } from '../../lib/token-bucket.ts';
import { Allowlist, type Answer, type Question } from './message.ts';
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
  readonly allowlist: readonly string[];
  readonly addresses: AddressPolicy;
  readonly upstream: Upstream;
  /** Lets the guest reach these addresses; resolves when it can. */
  readonly open: (addresses: readonly Found[]) => Promise<void>;
  /** Called for a name that was denied, with the reason. */
  readonly onDenied: (name: string, reason: string) => void;
  /** Called when the lookup failed; the guest gets SERVFAIL. */
  readonly onFailed: (name: string, error: unknown, step: FailedStep) => void;
};

/** Step that failed: the upstream query, or opening the addresses. */
export type FailedStep = 'ask' | 'open';

const NO_SUCH_NAME: Answer = { rcode: 'noSuchName' };
const NO_DATA: Answer = { rcode: 'ok' };
/** RFC 6761: some client libraries do not resolve localhost names themselves. No address is opened for them. */
const LOCALHOST = /(?:^|\.)localhost$/;
const ITSELF: Answer = { rcode: 'ok', records: [{ address: '127.0.0.1', ttlS: MAX_TTL_S }] };

export class ResolverClient {
  readonly #options: ClientOptions;
  readonly #allowlist: Allowlist;
  readonly #queue = new PQueue({ concurrency: CONCURRENCY });
  /** Pending answers by name: concurrent queries for one name share one upstream query. */
  readonly #pending = new Map<string, Promise<Answer>>();
  /** Number of open TCP connections. */
  connections = 0;
  readonly #bucket = new TokenBucket(PER_S, BURST);

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#allowlist = new Allowlist(options.allowlist);
  }

  /** Rate limit: must be called for each query before any other work on it. */
  admits(): boolean {
    return this.#bucket.take();
  }

  /** Undefined if the sandbox has too many pending queries. Never rejects. */
  answer({ name, type }: Question): Promise<Answer | undefined> | Answer {
    if (LOCALHOST.test(name)) return type === 'A' ? ITSELF : NO_DATA;
    if (!this.#allowlist.allows(name)) {
      this.#options.onDenied(name, 'not in the allowlist');
      return this.#allowlist.isAboveAllowed(name) ? NO_DATA : NO_SUCH_NAME;
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

// Special-purpose addresses, which names may resolve to only if the operator allows it.
/** IANA's special-purpose address registry, and ranges that cloud providers use. */
const RANGES: readonly (readonly [text: string, kind: string])[] = [
  ['0.0.0.0/8', 'reserved'],
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'carrier-grade NAT'],
  ['127.0.0.0/8', 'loopback'],
  ['168.63.129.16/32', 'metadata'],
  ['169.254.0.0/16', 'link-local or metadata'],
  ['172.16.0.0/12', 'private'],
  ['192.0.0.0/24', 'reserved'],
  ['192.0.2.0/24', 'documentation'],
  ['192.88.99.0/24', 'reserved'],
  ['192.168.0.0/16', 'private'],
  ['198.18.0.0/15', 'benchmark'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['240.0.0.0/4', 'reserved'],
];

const SPECIAL = RANGES.map(([text, kind]) => {
  const range = parseIpv4Range(text);
  if (range === undefined) throw new Error(`${text} is no range`);
  return { range, kind };
});

/** The kind of special-purpose address; undefined for a public one. */
export function specialKind(address: number): string | undefined {
  return SPECIAL.find(({ range }) => isInRange(address, range))?.kind;
}

type AddressPolicy = {
  /** Special-purpose ranges that the operator allows. */
  readonly allowed: readonly Ipv4Range[];
  /** The sandboxes' own range, never allowed. */
  readonly subnet: Ipv4Range;
};

/** The reason why a name may not resolve to this address; undefined if it may. */
export function denialReason(address: number, { allowed, subnet }: AddressPolicy): string | undefined {
  if (isInRange(address, subnet)) return 'of other sandboxes';
  const kind = specialKind(address);
  return kind === undefined || allowed.some((range) => isInRange(address, range)) ? undefined : kind;
}
