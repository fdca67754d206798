// The webhooks in the registry. Commands change them while a daemon runs, which polls every two seconds.
import { randomBytes } from 'node:crypto';
import type { LabelSelector } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import type { Store, Table } from '../store/store.ts';

const SECRET_BYTES = 32;
const MAX_HOOKS = 64;
/** More than the maximum number of queued deliveries or dead letters of a webhook. */
const MAX_ROWS = 10_000;

type NewWebhook = Pick<Webhook, 'url' | 'kinds' | 'tenant' | 'labels'> & { readonly name: string };
type ListedWebhook = Omit<Webhook, 'secret'> & {
  readonly name: string;
  readonly queued: number;
  readonly dead: number;
};
type DeadLetter = Delivery & { readonly webhook: string };

export class WebhookRegistry {
  readonly #store: Store;
  readonly hooks: Table<Webhook>;
  readonly queue: Table<Delivery>;
  readonly deadLetters: Table<Delivery>;
  readonly #events: Table<unknown>;
  readonly #meta: Table<{ readonly last: number }>;

  constructor(store: Store) {
    this.#store = store;
    this.hooks = store.table(TABLES.hooks);
    this.queue = store.table(TABLES.queue);
    this.deadLetters = store.table(TABLES.dead);
    this.#events = store.table('events');
    this.#meta = store.table('events_meta');
  }

  atomically<T>(change: () => T): Promise<T> {
    return this.#store.atomically(change);
  }

  /** The webhook gets events from now on. Resolves with its secret, which is not shown again. AppError conflict. */
  async add({ name, ...wanted }: NewWebhook): Promise<string> {
    const secret = `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
    await this.#store.atomically(() => {
      if (this.hooks.get(name) !== undefined)
        throw new AppError(
          'conflict',
          `there is a webhook ${name} already; remove it, or choose another name`,
        );
      if (this.hooks.range().length >= MAX_HOOKS)
        throw new AppError('conflict', `there are ${MAX_HOOKS} webhooks already; remove one`);
      const [newest] = this.#events.range({ isReverse: true, limit: 1 });
      const cursor = Math.max(this.#meta.get('journal')?.last ?? 0, Number(newest?.id ?? 0));
      void this.hooks.put(name, { ...wanted, secret, createdAtMs: Date.now(), cursor, missed: 0 });
    });
    await this.hooks.flush();
    return secret;
  }

  list(): ListedWebhook[] {
    return this.hooks.latestRange().map(({ id, record: { secret: _, ...shown } }) => ({
      name: id,
      ...shown,
      queued: keysOf(this.queue, id).length,
      dead: keysOf(this.deadLetters, id).length,
    }));
  }

  /** Also removes its deliveries and dead letters. AppError not_found. */
  async remove(name: string): Promise<void> {
    await this.#store.atomically(() => {
      this.#find(name);
      void this.hooks.remove(name);
      for (const table of [this.queue, this.deadLetters])
        for (const key of keysOf(table, name)) void table.remove(key);
    });
    await this.hooks.flush();
  }

  /** Oldest first. AppError not_found. */
  dead(name?: string): DeadLetter[] {
    if (name !== undefined) this.#find(name);
    const names = name === undefined ? this.hooks.latestRange().map(({ id }) => id) : [name];
    return names.flatMap((each) =>
      rowsOf(this.deadLetters, each).map(({ record }) => ({ ...record, webhook: each })),
    );
  }

  /** Queues dead letters again: the given ones, or all. Resolves with their number. AppError not_found. */
  async resend(name: string, eventIds: readonly string[] = []): Promise<number> {
    const count = await this.#store.atomically(() => {
      this.#find(name);
      const rows = rowsOf(this.deadLetters, name).filter(
        ({ record }) => eventIds.length === 0 || eventIds.includes(record.eventId),
      );
      const unknown = eventIds.find((id) => !rows.some(({ record }) => record.eventId === id));
      if (unknown !== undefined)
        throw new AppError('not_found', `webhook ${name} has no dead letter of event ${unknown}`);
      for (const { id, record } of rows) {
        void this.deadLetters.remove(id);
        void this.queue.put(id, { ...record, attempts: 0, nextAtMs: 0 });
      }
      return rows.length;
    });
    await this.queue.flush();
    return count;
  }

  #find(name: string): Webhook {
    const hook = this.hooks.latest(name);
    if (hook !== undefined) return hook;
    throw new AppError('not_found', `there is no webhook ${name}; \`sandboxd webhooks list\` shows all`);
  }
}

function rowsOf(table: Table<Delivery>, name: string) {
  return table
    .latestRange({ from: toKey(name, 0), limit: MAX_ROWS })
    .filter(({ id }) => id.startsWith(prefixOf(name)));
}

/** Keys of one webhook, oldest first, including writes of other processes. */
export function keysOf(table: Table<Delivery>, name: string, limit = MAX_ROWS): string[] {
  return table.latestKeys({ from: toKey(name, 0), limit }).filter((key) => key.startsWith(prefixOf(name)));
}

// Registry records of webhooks and their pending deliveries.
export type Webhook = {
  readonly url: string;
  /** `whsec_` and base64; signs the requests. */
  readonly secret: string;
  /** Absent: all kinds. */
  readonly kinds?: readonly string[];
  /** Only events of this tenant; absent: of all tenants. */
  readonly tenant?: string;
  /** Only events whose sandbox or snapshot had all of these labels; absent: of all. */
  readonly labels?: readonly LabelSelector[];
  readonly createdAtMs: number;
  /** Number of the newest event that is queued or filtered out. */
  readonly cursor: number;
  /** Number of events that expired from the journal before they were queued. */
  readonly missed: number;
};

/** An event for one webhook. The key consists of the webhook's name and the event's number. */
export type Delivery = {
  readonly eventId: string;
  readonly kind: string;
  /** Deliveries of one subject are sent in order. */
  readonly subject: string;
  /** The JSON text of the request body. */
  readonly body: string;
  readonly attempts: number;
  readonly nextAtMs: number;
  /** The error of the last attempt. */
  readonly problem?: string;
};

/** Names of the registry's tables. */
const TABLES = { hooks: 'webhooks', queue: 'webhook_queue', dead: 'webhook_dead' } as const;

const DIGITS = 16;

export function toKey(name: string, seq: number): string {
  return `${prefixOf(name)}${String(seq).padStart(DIGITS, '0')}`;
}

/** A webhook's name contains no slash. */
function prefixOf(name: string): string {
  return `${name}/`;
}
