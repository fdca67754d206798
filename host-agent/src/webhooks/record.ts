// Registry records of webhooks and their pending deliveries.

export type Webhook = {
  readonly url: string;
  /** `whsec_` and base64; signs the requests. */
  readonly secret: string;
  /** Absent: all kinds. */
  readonly kinds?: readonly string[];
  /** Only events of this tenant; absent: of all tenants. */
  readonly tenant?: string;
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
export const TABLES = { hooks: 'webhooks', queue: 'webhook_queue', dead: 'webhook_dead' } as const;

const DIGITS = 16;

export function toKey(name: string, seq: number): string {
  return `${prefixOf(name)}${String(seq).padStart(DIGITS, '0')}`;
}

/** A webhook's name contains no slash. */
export function prefixOf(name: string): string {
  return `${name}/`;
}
