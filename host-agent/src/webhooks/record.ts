// What the registry keeps of webhooks: who is told, and what they have not taken yet.

export type Webhook = {
  readonly url: string;
  /** `whsec_` and base64: signs what is sent. */
  readonly secret: string;
  /** Absent: all. */
  readonly kinds?: readonly string[];
  /** Only what is this tenant's; absent: everybody's. */
  readonly tenant?: string;
  readonly createdAtMs: number;
  /** Number of the newest event that is queued, or was not wanted. */
  readonly cursor: number;
  /** Events that were not kept long enough to be queued. */
  readonly missed: number;
};

/** An event for one webhook; its key is the webhook's name and the event's number. */
export type Delivery = {
  readonly eventId: string;
  readonly kind: string;
  /** Deliveries of the same subject are in order. */
  readonly subject: string;
  /** JSON, as it is sent. */
  readonly body: string;
  readonly attempts: number;
  readonly nextAtMs: number;
  /** What the last attempt failed with. */
  readonly problem?: string;
};

/** Names of the registry's tables. */
export const TABLES = { hooks: 'webhooks', queue: 'webhook_queue', dead: 'webhook_dead' } as const;

const DIGITS = 16;

export function toKey(name: string, seq: number): string {
  return `${prefixOf(name)}${String(seq).padStart(DIGITS, '0')}`;
}

/** No name has a slash. */
export function prefixOf(name: string): string {
  return `${name}/`;
}
