// Delivers events to webhooks, at least once. Each event is written to its webhook's queue on disk before it is sent,
// and stays there until it is accepted or becomes a dead letter, so it survives any end of the daemon. Within a queue,
// events of one sandbox are in order.
import type { Logger } from 'pino';
import type { Journal } from '../events/journal.ts';
import { backOffMs } from '../lib/back-off.ts';
import { matchesLabels } from '../lib/labels.ts';
import { type StoredEvent, toEventBody } from '../sandboxes/lifecycle-events.ts';
import { type Delivery, keysOf, toKey, type Webhook, type WebhookRegistry } from './registry.ts';
import { send as sendMessage } from './sender.ts';

/** Poll interval: commands change webhooks while the daemon runs. */
const POLL_MS = 2000;
/** Maximum queued deliveries of a webhook; further events wait in the journal. */
const MAX_QUEUED = 1000;
const MAX_DEAD = 1000;
/** Concurrent requests to one receiver: a receiver that hangs holds only this many connections. */
const MAX_CONCURRENT = 4;
const FIRST_WAIT_MS = 1000;
const MAX_WAIT_MS = 3_600_000;
/** Waits have a jitter of ±25 %, so that receivers are not all retried at once. */
const MAX_JITTERED_WAIT_MS = 1.25 * MAX_WAIT_MS;
/** About nine hours in total. */
const MAX_ATTEMPTS = 20;

type DispatcherOptions = {
  readonly registry: WebhookRegistry;
  readonly journal: Journal<StoredEvent>;
  readonly log: Logger;
  /** For tests. */
  readonly send?: typeof sendMessage;
  readonly firstWaitMs?: number;
  readonly maxAttempts?: number;
  readonly pollMs?: number;
};

type Row = { readonly key: string; readonly delivery: Delivery };

type WebhookQueue = {
  hook: Webhook;
  /** The queue as it is on disk, in order. */
  rows: Row[];
  /** Subjects with a request in progress. */
  readonly busy: Set<string>;
  isFeeding: boolean;
  /** For the earliest waiting delivery. */
  timer?: NodeJS.Timeout;
};

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #queues = new Map<string, WebhookQueue>();
  readonly #stopping = new AbortController();
  readonly #work = new Set<Promise<unknown>>();
  readonly #timer: NodeJS.Timeout;
  readonly #unlisten: () => void;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#unlisten = options.journal.onMore(() => this.#feedAll());
    this.#timer = setInterval(() => this.#poll(), options.pollMs ?? POLL_MS).unref();
    this.#poll();
  }

  /** Resolves when no request is in progress; the next daemon sends what was not accepted. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#unlisten();
    this.#stopping.abort();
    await Promise.allSettled([...this.#work]);
  }

  #poll(): void {
    const { registry, log } = this.#options;
    try {
      const hooks = new Map(registry.hooks.latestRange().map(({ id, record }) => [id, record]));
      for (const name of this.#queues.keys()) if (!hooks.has(name)) this.#queues.delete(name);
      for (const [name, hook] of hooks) {
        const known = this.#queues.get(name);
        const queue =
          known?.hook.createdAtMs === hook.createdAtMs
            ? known
            : { hook, rows: [], busy: new Set<string>(), isFeeding: false };
        if (!queue.isFeeding) queue.hook = hook;
        queue.rows = this.#readRows(name, queue.rows);
        this.#queues.set(name, queue);
      }
    } catch (err) {
      log.warn({ err }, 'cannot read the webhooks');
    }
    this.#feedAll();
    for (const [name, queue] of this.#queues) this.#pump(name, queue);
  }

  /** Known rows are not read again: there may be tens of thousands, and the queue is polled every two seconds. */
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
    for (const [name, queue] of this.#queues) this.#feedIfBehind(name, queue);
  }

  #feedIfBehind(name: string, queue: WebhookQueue): void {
    const isBehind = queue.hook.cursor < this.#options.journal.last && queue.rows.length < MAX_QUEUED;
    if (isBehind && !queue.isFeeding && !this.#stopping.signal.aborted) this.#run(this.#feed(name, queue));
  }

  #run(work: Promise<unknown>): void {
    const whole = work
      .catch((err: unknown) =>
        this.#options.log.warn({ err }, 'the delivery to a webhook failed, will retry'),
      )
      .finally(() => this.#work.delete(whole));
    this.#work.add(whole);
  }

  /** Copies new events to the queue and advances the cursor, in one transaction. */
  async #feed(name: string, queue: WebhookQueue): Promise<void> {
    const { registry, journal, log } = this.#options;
    queue.isFeeding = true;
    try {
      while (queue.rows.length < MAX_QUEUED && !this.#stopping.signal.aborted) {
        const from = Math.max(queue.hook.cursor, journal.prunedTo);
        const lost = from - queue.hook.cursor;
        if (lost > 0)
          log.warn(
            { webhook: name, lost },
            'a webhook missed events: its queue was full for longer than the journal keeps them',
          );
        const entries = journal.read(from);
        const last = entries.at(-1)?.seq ?? from;
        if (last === queue.hook.cursor) return;
        const rows = entries
          .filter(({ event }) => matches(queue.hook, event))
          .map(({ seq, event }) => ({
            key: toKey(name, seq),
            delivery: toDelivery(journal.toId(seq), event),
          }));
        const hook = { ...queue.hook, cursor: last, missed: queue.hook.missed + lost };
        const isThere = await registry.atomically(() => {
          if (registry.hooks.get(name)?.createdAtMs !== hook.createdAtMs) return false;
          void registry.hooks.put(name, hook);
          for (const { key, delivery } of rows) void registry.queue.put(key, delivery);
          return true;
        });
        if (!isThere) return;
        queue.hook = hook;
        // A concurrent poll may have read some of them.
        const known = new Set(queue.rows.map(({ key }) => key));
        queue.rows.push(...rows.filter(({ key }) => !known.has(key)));
        this.#pump(name, queue);
      }
    } finally {
      queue.isFeeding = false;
    }
  }

  /** Sends the first delivery of each subject if it is due; otherwise sets a timer. */
  #pump(name: string, queue: WebhookQueue): void {
    const { pollMs = POLL_MS } = this.#options;
    const now = Date.now();
    const seen = new Set<string>();
    let earliestMs = now + pollMs;
    clearTimeout(queue.timer);
    for (const row of queue.rows) {
      // A finished request calls this method again.
      if (queue.busy.size >= MAX_CONCURRENT || this.#stopping.signal.aborted) return;
      const { subject, nextAtMs } = row.delivery;
      if (seen.has(subject)) continue;
      seen.add(subject);
      // A retry time further in the future comes from a clock that was ahead: it is ignored.
      const isWaiting = nextAtMs > now && nextAtMs <= now + MAX_JITTERED_WAIT_MS;
      if (isWaiting) earliestMs = Math.min(earliestMs, nextAtMs);
      if (queue.busy.has(subject) || isWaiting) continue;
      queue.busy.add(subject);
      this.#run(this.#deliver(name, queue, row));
    }
    // Longer waits are handled by the next poll.
    if (earliestMs < now + pollMs)
      queue.timer = setTimeout(() => this.#pump(name, queue), earliestMs - now + 1).unref();
  }

  async #deliver(name: string, queue: WebhookQueue, row: Row): Promise<void> {
    const { send = sendMessage, log } = this.#options;
    const { eventId: id, body, subject } = row.delivery;
    const { url, secret } = queue.hook;
    try {
      const problem = await send({ url, secret, id, body }, this.#stopping.signal);
      if (problem !== undefined && this.#stopping.signal.aborted) return;
      const after = await this.#recordResult(name, row, problem);
      queue.rows = queue.rows.flatMap((each) =>
        each.key !== row.key ? [each] : after ? [{ ...row, delivery: after }] : [],
      );
      if (after === undefined) return;
      const waitMs = after.nextAtMs - Date.now();
      log.info(
        { webhook: name, event: id, problem, attempts: after.attempts, waitMs },
        'a webhook did not accept an event',
      );
    } finally {
      queue.busy.delete(subject);
      this.#pump(name, queue);
      this.#feedIfBehind(name, queue);
    }
  }

  /** Records the result. Returns the delivery if it will be retried, undefined if it is done. */
  async #recordResult(
    name: string,
    { key }: Row,
    problem: string | undefined,
  ): Promise<Delivery | undefined> {
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
        'a webhook did not accept an event, which is now a dead letter',
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

function matches({ kinds, tenant, labels }: Webhook, event: StoredEvent): boolean {
  const isOfTenant = tenant === undefined || tenant === event.owner?.tenant;
  return kinds?.includes(event.kind) !== false && isOfTenant && matchesLabels(event.labels, labels);
}

function toDelivery(eventId: string, event: StoredEvent): Delivery {
  const body = JSON.stringify(toEventBody(eventId, event));
  const subject = event.sandbox ?? event.snapshot ?? eventId;
  return { eventId, kind: event.kind, subject, body, attempts: 0, nextAtMs: 0 };
}
