// What the ingress needs of sandboxes.
import type { Duplex } from 'node:stream';
import type { HostHeader } from '@sandboxd/api';
import type { Principal } from '../keys/index.ts';
import type { Sought } from './addresses.ts';

export interface PortHost {
  /** Undefined if there is none that the principal may see. */
  find(principal: Principal, sought: Sought): SandboxPorts | undefined;
}

/** The ports of one sandbox. */
export interface SandboxPorts {
  readonly id: string;
  /** Undefined: the port is closed. */
  access(port: number): 'public' | 'private' | undefined;
  /** What the guest gets as Host: as the client sent it, or localhost with the port. */
  hostHeader(port: number): HostHeader;
  /** Wakes a paused sandbox. AppErrors of the connection, and of the resume. */
  connectPort(port: number, options: { readonly signal: AbortSignal }): Promise<PortStream>;
}

/** A connection to a port of a guest; half-open like a socket. */
export type PortStream = Duplex & {
  /** Ends it so that the guest's program sees a reset, not an end. */
  reset(): void;
};
