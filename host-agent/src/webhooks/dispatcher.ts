// Brings events to webhooks. Each is put into its webhook's queue on disk before anything is sent, and stays there until it was taken
// or given up: so it survives whatever ends the daemon, and comes at least once. Within a queue those of one sandbox are in order.
import type { Logger } from 'pino';
import type { Journal } from '../events/index.ts';
import { backOffMs } from '../lib/back-off.ts';
import { type StoredEvent, toEventBody } from '../sandboxes/lifecycle-events.ts';
import { type Delivery, toKey, type Webhook } from './record.ts';
import { keysOf, type WebhookRegistry } from './registry.ts';
import { send as sendMessage } from './sender.ts';

/** Commands change webhooks beside the daemon. */
const LOOK_MS = 2000;
/** Waiting deliveries of a webhook; beyond it, events wait in the journal. */
const MAX_QUEUED = 1000;
const MAX_DEAD = 1000;
/** Requests to one receiver at a time: a hanging one holds so many connections, and nobody else's. */
const ABREAST = 4;
const FIRST_WAIT_MS = 1000;
const MAX_WAIT_MS = 3_600_000;
/** Waits differ by a quarter either way, so that receivers are not asked all at once. */
const LONGEST_WAIT_MS = 1.25 * MAX_WAIT_MS;
/** About nine hours. */
const MAX_ATTEMPTS = 20;

export type DispatcherOptions = {
  readonly registry: WebhookRegistry;
  readonly journal: Journal<StoredEvent>;
  readonly log: Logger;
  /** For tests. */
  readonly send?: typeof sendMessage;
  readonly firstWaitMs?: number;
  readonly maxAttempts?: number;
  readonly lookMs?: number;
};

type Row = { readonly key: string; readonly delivery: Delivery };

type Lane = {
  hook: Webhook;
  /** As it is on disk, in order. */
  rows: Row[];
  /** Subjects of what is being sent. */
  readonly busy: Set<string>;
  isFeeding: boolean;
  /** For the first of those that wait. */
  timer?: NodeJS.Timeout;
};

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #lanes = new Map<string, Lane>();
  readonly #over = new AbortController();
  readonly #work = new Set<Promise<unknown>>();
  readonly #timer: NodeJS.Timeout;
  readonly #unlisten: () => void;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#unlisten = options.journal.onMore(() => this.#feedAll());
    this.#timer = setInterval(() => this.#look(), options.lookMs ?? LOOK_MS).unref();
    this.#look();
  }

  /** Resolves when nothing is sent any more; what was not taken is sent by the next daemon. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#unlisten();
    this.#over.abort();
    await Promise.allSettled([...this.#work]);
  }

  #look(): void {
    const { registry, log } = this.#options;
    try {
      const hooks = new Map(registry.hooks.latestRange().map(({ id, record }) => [id, record]));
      for (const name of this.#lanes.keys()) if (!hooks.has(name)) this.#lanes.delete(name);
      for (const [name, hook] of hooks) {
        const known = this.#lanes.get(name);
        const lane =
          known?.hook.createdAtMs === hook.createdAtMs
            ? known
            : { hook, rows: [], busy: new Set<string>(), isFeeding: false };
        if (!lane.isFeeding) lane.hook = hook;
        lane.rows = this.#readRows(name, lane.rows);
        this.#lanes.set(name, lane);
      }
    } catch (err) {
      log.warn({ err }, 'cannot read the webhooks');
    }
    this.#feedAll();
    for (const [name, lane] of this.#lanes) this.#pump(name, lane);
  }

  /** Those that are known are not read again: there may be tens of thousands, and a look every two seconds. */
  #readRows(name: string, known: readonly Row[]): Row[] {
    const { queue } = this.#options.registry;
    const rows = new Map(known.map((row) => [row.key, row]));
    return keysOf(queue, name, MAX_QUEUED).flatMap((key) => {
      const row = rows.get(key);
      if (row !== undefined) return [row];
      const delivery = queue.get(key);
      return delivery === undefined ? [] : [{ key, delivery }];
    });
  }

  #feedAll(): void {
    for (const [name, lane] of this.#lanes) this.#feedIfBehind(name, lane);
  }

  #feedIfBehind(name: string, lane: Lane): void {
    const isBehind = lane.hook.cursor < this.#options.journal.last && lane.rows.length < MAX_QUEUED;
    if (isBehind && !lane.isFeeding && !this.#over.signal.aborted) this.#run(this.#feed(name, lane));
  }

  #run(work: Promise<unknown>): void {
    const whole = work
      .catch((err: unknown) => this.#options.log.warn({ err }, 'a webhook is in trouble; it is tried again'))
      .finally(() => this.#work.delete(whole));
    this.#work.add(whole);
  }

  /** Puts what happened into the queue, with the place up to which that is done. */
  async #feed(name: string, lane: Lane): Promise<void> {
    const { registry, journal, log } = this.#options;
    lane.isFeeding = true;
    try {
      while (lane.rows.length < MAX_QUEUED && !this.#over.signal.aborted) {
        const from = Math.max(lane.hook.cursor, journal.prunedTo);
        const lost = from - lane.hook.cursor;
        if (lost > 0)
          log.warn({ webhook: name, lost }, 'a webhook was behind for longer than events are kept');
        const entries = journal.read(from);
        const last = entries.at(-1)?.seq ?? from;
        if (last === lane.hook.cursor) return;
        const rows = entries
          .filter(({ event }) => isWanted(lane.hook, event))
          .map(({ seq, event }) => ({
            key: toKey(name, seq),
            delivery: toDelivery(journal.toId(seq), event),
          }));
        const hook = { ...lane.hook, cursor: last, missed: lane.hook.missed + lost };
        const isThere = await registry.atomically(() => {
          if (registry.hooks.get(name)?.createdAtMs !== hook.createdAtMs) return false;
          void registry.hooks.put(name, hook);
          for (const { key, delivery } of rows) void registry.queue.put(key, delivery);
          return true;
        });
        if (!isThere) return;
        lane.hook = hook;
        // A look in between may have seen them.
        const known = new Set(lane.rows.map(({ key }) => key));
        lane.rows.push(...rows.filter(({ key }) => !known.has(key)));
        this.#pump(name, lane);
      }
    } finally {
      lane.isFeeding = false;
    }
  }

  /** Sends the first of each subject, if it is time; else when it is. */
  #pump(name: string, lane: Lane): void {
    const { lookMs = LOOK_MS } = this.#options;
    const now = Date.now();
    const seen = new Set<string>();
    let earliestMs = now + lookMs;
    clearTimeout(lane.timer);
    for (const row of lane.rows) {
      // Who is done calls this again.
      if (lane.busy.size >= ABREAST || this.#over.signal.aborted) return;
      const { subject, nextAtMs } = row.delivery;
      if (seen.has(subject)) continue;
      seen.add(subject);
      // A time further off is from a clock that was ahead then.
      const isWaiting = nextAtMs > now && nextAtMs <= now + LONGEST_WAIT_MS;
      if (isWaiting) earliestMs = Math.min(earliestMs, nextAtMs);
      if (lane.busy.has(subject) || isWaiting) continue;
      lane.busy.add(subject);
      this.#run(this.#deliver(name, lane, row));
    }
    // What waits for longer is seen by the next look.
    if (earliestMs < now + lookMs)
      lane.timer = setTimeout(() => this.#pump(name, lane), earliestMs - now + 1).unref();
  }

  async #deliver(name: string, lane: Lane, row: Row): Promise<void> {
    const { send = sendMessage, log } = this.#options;
    const { eventId: id, body, subject } = row.delivery;
    const { url, secret } = lane.hook;
    try {
      const problem = await send({ url, secret, id, body }, this.#over.signal);
      if (problem !== undefined && this.#over.signal.aborted) return;
      const after = await this.#settle(name, row, problem);
      lane.rows = lane.rows.flatMap((each) =>
        each.key !== row.key ? [each] : after ? [{ ...row, delivery: after }] : [],
      );
      if (after === undefined) return;
      const waitMs = after.nextAtMs - Date.now();
      log.info(
        { webhook: name, event: id, problem, attempts: after.attempts, waitMs },
        'a webhook did not take an event',
      );
    } finally {
      lane.busy.delete(subject);
      this.#pump(name, lane);
      this.#feedIfBehind(name, lane);
    }
  }

  /** Writes down what came of it: the delivery as it waits on, undefined when it is over. */
  async #settle(name: string, { key }: Row, problem: string | undefined): Promise<Delivery | undefined> {
    const { registry, firstWaitMs = FIRST_WAIT_MS, maxAttempts = MAX_ATTEMPTS, log } = this.#options;
    return registry.atomically(() => {
      const delivery = registry.queue.get(key);
      // Its webhook was removed meanwhile.
      if (delivery === undefined) return undefined;
      if (problem === undefined) {
        void registry.queue.remove(key);
        return undefined;
      }
      const attempts = delivery.attempts + 1;
      const waitMs = backOffMs(attempts, { firstMs: firstWaitMs, mostMs: MAX_WAIT_MS, jitter: 0.25 });
      const next = { ...delivery, attempts, problem, nextAtMs: Date.now() + waitMs };
      if (attempts < maxAttempts) {
        void registry.queue.put(key, next);
        return next;
      }
      log.warn(
        { webhook: name, event: delivery.eventId, problem },
        'a webhook did not take an event; it is given up',
      );
      void registry.queue.remove(key);
      void registry.deadLetters.put(key, next);
      const dead = keysOf(registry.deadLetters, name);
      for (const old of dead.slice(0, Math.max(0, dead.length - MAX_DEAD)))
        void registry.deadLetters.remove(old);
      return undefined;
    });
  }
}

function isWanted({ kinds, tenant }: Webhook, event: StoredEvent): boolean {
  return kinds?.includes(event.kind) !== false && (tenant === undefined || tenant === event.owner?.tenant);
}

function toDelivery(eventId: string, event: StoredEvent): Delivery {
  const body = JSON.stringify(toEventBody(eventId, event));
  const subject = event.sandbox ?? event.snapshot ?? eventId;
  return { eventId, kind: event.kind, subject, body, attempts: 0, nextAtMs: 0 };
}
