// The egress log of each sandbox: what its guest reached and what it was denied. A guest decides how much there is, so
// records are rate-limited before they are written, and gaps are counted.
import type { EGRESS_LOG_MODES, EGRESS_PROTOCOLS } from '@sandboxd/api';
import { TokenBucket } from '../lib/token-bucket.ts';

export type EgressProtocol = (typeof EGRESS_PROTOCOLS)[number];
/** Which records are kept. */
export type EgressLogMode = (typeof EGRESS_LOG_MODES)[number];

export type EgressVerdict = 'allowed' | 'denied';

/** A connection, when it has ended or was denied, or a question for a name. Texts are of the guest: bounded here. */
export type EgressRecord = {
  readonly verdict: EgressVerdict;
  readonly reason: string;
  readonly protocol: EgressProtocol;
  /** Of the policy that judged; absent: the one that holds now. */
  readonly generation?: number | undefined;
  /** What allows it, in words: `github.com:22/tcp`. */
  readonly rule?: string | undefined;
  readonly name?: string | undefined;
  readonly address?: string | undefined;
  readonly port?: number | undefined;
  /** Names of the secrets that a request had, and their forms. */
  readonly secrets?: readonly string[] | undefined;
  readonly forms?: readonly string[] | undefined;
  readonly bytesUp?: number | undefined;
  readonly bytesDown?: number | undefined;
  /** How long the connection, or the request, lasted. */
  readonly ms?: number | undefined;
  /** Of a request that was read. */
  readonly method?: string | undefined;
  /** Without its query. */
  readonly path?: string | undefined;
  readonly status?: number | undefined;
};

/** `missing`: here are records missing; `dropped`: how many, where that is known. */
export type StoredEgress = Omit<EgressRecord, 'verdict' | 'protocol'> & {
  readonly verdict: EgressVerdict | 'missing';
  readonly protocol?: EgressProtocol | undefined;
  readonly timeMs: number;
  readonly dropped?: number | undefined;
};

export type EgressPage = { readonly nextOffset: number; readonly records: readonly StoredEgress[] };

export type EgressQuery = {
  /** The `nextOffset` of an earlier page; absent: the end of the log. */
  readonly since?: number | undefined;
  readonly verdict?: EgressVerdict | undefined;
  /** Only a log of this tenant; absent: of any tenant. */
  readonly tenant?: string | undefined;
};

type EgressSource = 'service' | 'exec';

type EgressFile = {
  append(record: {
    readonly source: EgressSource;
    readonly stream: 'stdout';
    readonly timeMs: number;
    readonly data: Buffer;
  }): void;
};

/** What it wrote by itself has the stream `event`. */
type FilePage = {
  readonly nextOffset: number;
  readonly records: readonly { readonly stream: string; readonly text: string; readonly timeMs: number }[];
};

/** The part of `LogStore` that this log needs. */
export interface EgressStore {
  start(alive: ReadonlySet<string>): Promise<void>;
  open(id: string, tenant?: string): Promise<EgressFile | undefined>;
  /** Opens the log if it exists. */
  reopen(id: string): Promise<EgressFile | undefined>;
  read(
    id: string,
    query: { readonly since?: number; readonly source?: EgressSource; readonly tenant?: string },
  ): Promise<FilePage | undefined>;
  end(id: string): Promise<void>;
  remove(id: string): Promise<void>;
}

export type EgressSettings = {
  readonly mode?: EgressLogMode | undefined;
  readonly generation: number;
};

/** Records a second and at once. Denials have their own: a guest that floods does not hide its connections. */
const RATES: Readonly<Record<EgressVerdict, readonly [perS: number, burst: number]>> = {
  allowed: [50, 400],
  denied: [5, 100],
};
/** A gap is reported at the latest after this time. */
const GAP_MS = 5000;
const MAX_NAME_CHARS = 253;
const MAX_TEXT_CHARS = 512;
const MAX_METHOD_CHARS = 32;
const MAX_PATH_CHARS = 1024;
/** The store keeps a source with each record and can filter by it. */
const SOURCES: Readonly<Record<EgressVerdict, EgressSource>> = { allowed: 'service', denied: 'exec' };

type Budget = { readonly bucket: TokenBucket; dropped: number };

type Entry = {
  readonly tenant: string | undefined;
  settings: EgressSettings;
  log: Promise<EgressFile | undefined> | undefined;
  readonly budgets: Readonly<Record<EgressVerdict, Budget>>;
  gapTimer: NodeJS.Timeout | undefined;
  readonly listeners: Set<() => void>;
};

export class EgressLog {
  readonly #store: EgressStore | undefined;
  readonly #entries = new Map<string, Entry>();
  readonly #counts = new Map<string, { readonly labels: Record<string, string>; value: number }>();

  /** Without a store nothing is kept, but counted. */
  constructor(store: EgressStore | undefined) {
    this.#store = store;
  }

  get isKept(): boolean {
    return this.#store !== undefined;
  }

  /** Verdicts since the daemon started, by verdict and protocol, those that are not kept included. */
  get counts(): Iterable<{ readonly labels: Record<string, string>; readonly value: number }> {
    return this.#counts.values();
  }

  /** To be called first. `alive`: the logs of all other sandboxes have ended. */
  async start(alive: ReadonlySet<string>): Promise<void> {
    await this.#store?.start(alive);
  }

  /** A sandbox gets a network, or has one of an earlier daemon. Nothing is on disk before its first record. */
  async begin(id: string, settings: EgressSettings, tenant?: string): Promise<void> {
    const toBudget = ([perS, burst]: readonly [number, number]): Budget => ({
      bucket: new TokenBucket(perS, burst),
      dropped: 0,
    });
    const log = await this.#store?.reopen(id);
    this.#entries.set(id, {
      ...{ tenant, settings, gapTimer: undefined, listeners: new Set() },
      log: log && Promise.resolve(log),
      budgets: { allowed: toBudget(RATES.allowed), denied: toBudget(RATES.denied) },
    });
  }

  change(id: string, settings: EgressSettings): void {
    const entry = this.#entries.get(id);
    if (entry !== undefined) entry.settings = settings;
  }

  /** Never waits and never fails. Beyond a rate it counts only. What is of no known sandbox is ignored. */
  add(id: string, record: EgressRecord): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    this.#count(record);
    const { mode = 'all', generation } = entry.settings;
    if (this.#store === undefined || mode === 'off') return;
    if (mode === 'denied' && record.verdict !== 'denied') return;
    if (!entry.budgets[record.verdict].bucket.take()) {
      this.#drop(id, entry, record.verdict, 1);
      return;
    }
    this.#reportGap(id, entry, record.verdict);
    this.#append(id, entry, record.verdict, { generation, ...bounded(record) });
  }

  /** So many records of allowed connections are missing. */
  miss(id: string, count: number): void {
    const entry = this.#entries.get(id);
    const mode = entry?.settings.mode ?? 'all';
    if (entry !== undefined && this.#store !== undefined && mode === 'all')
      this.#drop(id, entry, 'allowed', count);
  }

  /** Undefined if there is no log of that sandbox, or it belongs to another tenant. */
  async read(id: string, { since, verdict, tenant }: EgressQuery): Promise<EgressPage | undefined> {
    await this.#entries.get(id)?.log;
    const page = await this.#store?.read(id, {
      ...(since !== undefined && { since }),
      ...(verdict !== undefined && { source: SOURCES[verdict] }),
      ...(tenant !== undefined && { tenant }),
    });
    return page && { nextOffset: page.nextOffset, records: page.records.map(toStored) };
  }

  /** Whether more may come. */
  isOpen(id: string): boolean {
    return this.#entries.has(id);
  }

  /** Calls back with each record, and when the log ends. Returns what ends that. */
  onMore(id: string, listener: () => void): () => void {
    const listeners = this.#entries.get(id)?.listeners;
    listeners?.add(listener);
    return () => listeners?.delete(listener);
  }

  /** The sandbox was deleted. `isKept`: its log stays readable until it expires. Can be called again. */
  async end(id: string, isKept: boolean): Promise<void> {
    const entry = this.#entries.get(id);
    if (entry !== undefined) {
      this.#reportGaps(id, entry);
      this.#entries.delete(id);
      await entry.log;
      for (const listener of entry.listeners) listener();
    }
    if (isKept) await this.#store?.end(id);
    else await this.#store?.remove(id);
  }

  #drop(id: string, entry: Entry, verdict: EgressVerdict, count: number): void {
    entry.budgets[verdict].dropped += count;
    entry.gapTimer ??= setTimeout(() => this.#reportGaps(id, entry), GAP_MS).unref();
  }

  #count({ verdict, protocol }: EgressRecord): void {
    const key = `${verdict} ${protocol}`;
    const count = this.#counts.get(key) ?? { labels: { verdict, protocol }, value: 0 };
    count.value++;
    this.#counts.set(key, count);
  }

  #reportGaps(id: string, entry: Entry): void {
    clearTimeout(entry.gapTimer);
    entry.gapTimer = undefined;
    for (const verdict of ['allowed', 'denied'] as const) this.#reportGap(id, entry, verdict);
  }

  #reportGap(id: string, entry: Entry, verdict: EgressVerdict): void {
    const budget = entry.budgets[verdict];
    const { dropped } = budget;
    if (dropped === 0) return;
    budget.dropped = 0;
    const reason = `${dropped} more ${verdict} were not logged, because they came too fast`;
    this.#append(id, entry, verdict, { verdict: 'missing', reason, dropped });
  }

  /** `budget`: by which the record is found. */
  #append(id: string, entry: Entry, budget: EgressVerdict, record: Omit<StoredEgress, 'timeMs'>): void {
    const data = Buffer.from(JSON.stringify(record));
    const timeMs = Date.now();
    entry.log ??= this.#store?.open(id, entry.tenant);
    void entry.log?.then((log) => {
      log?.append({ source: SOURCES[budget], stream: 'stdout', timeMs, data });
      for (const listener of entry.listeners) listener();
    });
  }
}

function bounded(record: EgressRecord): EgressRecord {
  const { reason, rule, name, method, path } = record;
  return {
    ...record,
    reason: reason.slice(0, MAX_TEXT_CHARS),
    ...(rule !== undefined && { rule: rule.slice(0, MAX_TEXT_CHARS) }),
    ...(name !== undefined && { name: name.slice(0, MAX_NAME_CHARS) }),
    ...(method !== undefined && { method: method.slice(0, MAX_METHOD_CHARS) }),
    ...(path !== undefined && { path: path.slice(0, MAX_PATH_CHARS) }),
  };
}

/** What the store wrote by itself is the report of a gap. */
function toStored({ stream, text, timeMs }: FilePage['records'][number]): StoredEgress {
  if (stream === 'event') return { verdict: 'missing', reason: text, timeMs };
  return { ...(JSON.parse(text) as Omit<StoredEgress, 'timeMs'>), timeMs };
}
