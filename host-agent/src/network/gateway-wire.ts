// What the daemon and a gateway (src/gateway) say to each other: lines of JSON, on the gateway's descriptor 3. A
// gateway that its guest has taken over may write anything.
import type { BoundSecret } from '../lib/bound-secret.ts';
import type { Authority } from './authority/index.ts';
import type { ConnectionRecord } from './connection-record.ts';
import type { NetworkPolicy } from './network-policy.ts';

/** Its value is in base64. */
export type GatewaySecret = BoundSecret<string>;

/** Replaces what held before. */
export type GatewaySettings = {
  readonly policy: NetworkPolicy;
  readonly generation?: number | undefined;
  /** Signs what the guest sees of servers; absent: nothing within TLS can be read. */
  readonly authority?: Authority | undefined;
  /** Certificates (PEM) that vouch for servers, besides those of Mozilla. */
  readonly roots?: string | undefined;
  readonly secrets?: readonly GatewaySecret[] | undefined;
  /** Whether the operator permits secrets without TLS. */
  readonly allowsPlainHttp?: boolean | undefined;
};

/** It answers `settled` with the number. */
export type ToGateway = { readonly settle: number; readonly settings: GatewaySettings };

export type FromGateway =
  /** `closed`: requests that may not go on. */
  | { readonly settled: number; readonly closed: number }
  | { readonly record: ConnectionRecord }
  /** So many records were too many to write. */
  | { readonly missed: number }
  /** What went wrong, or its last words. Of a second one within a minute nothing is read. */
  | { readonly failed: string }
  /** It had no connection for a while. */
  | { readonly idle: true };

export function toLine(message: FromGateway): string {
  return `${JSON.stringify(message)}\n`;
}

/** Of a line to the daemon. */
export const MAX_GATEWAY_LINE = 4096;

/** By what a line costs the daemon, whose limit is twice that of the gateway for itself. */
export const GATEWAY_LINES = { perS: 1000, atOnce: 10_000 };

export function costOfLine(line: string): number {
  return Math.ceil(line.length / 1024);
}
