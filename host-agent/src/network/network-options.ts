// What the networks of a daemon are made with, and what each is served with.
import type { Logger } from 'pino';
import type { Ipv4Range } from '../lib/ipv4.ts';
import type { Table } from '../store/store.ts';
import type { Authority } from './authority/index.ts';
import type { EgressRecord } from './egress-log.ts';
import type { GatewayCommand, GatewaySecrets } from './gateway-process.ts';
import type { Users } from './held-process.ts';
import type { HostSideRecord } from './host-side.ts';
import type { NetworkPolicy } from './network-policy.ts';
import type { Upstream } from './resolver/upstream.ts';

export type NetworkOptions = {
  /** The address range that slots are allocated from; absent: the first free candidate. */
  readonly subnet?: Ipv4Range | undefined;
  /** Special-purpose ranges that names may resolve to. */
  readonly allowedRanges: readonly Ipv4Range[];
  readonly upstream: Upstream;
  /** Contains the bind-mounted namespace files. */
  readonly runDir: string;
  readonly records: Table<HostSideRecord>;
  /** Path of the helper that changes namespaces (native/netd.c). */
  readonly program: string;
  /** Path of the program that holds published ports (native/portd.c). */
  readonly portProgram: string;
  /** Path of the program that relays connections that are bound to names (native/egressd.c). */
  readonly egressProgram: string;
  /** The process that reads requests. */
  readonly gateway: { readonly command: GatewayCommand; readonly roots?: string | undefined };
  /** Allocates the user ids that port holders and relays run as. */
  readonly portUsers: Users;
  readonly log: Logger;
};

export type ServeOptions = NetworkPolicy & {
  /** Where a change of the policy may have been cut short: what held before it. */
  readonly before?: NetworkPolicy | 'unknown' | undefined;
  /** An earlier daemon already served this network: addresses that it opened stay open. */
  readonly wasServed: boolean;
  /** Gets a line for the sandbox's log for each denial. */
  readonly onDenied: (text: string) => void;
  /** Of the policy; absent: not known. */
  readonly generation?: number | undefined;
  /** Of the sandbox; undefined: its guest trusts none, and nothing within TLS is read. */
  readonly authority?: (() => Promise<Authority | undefined>) | undefined;
  /** Of the sandbox. */
  readonly secrets?: GatewaySecrets | undefined;
  /** Gets what the guest reached, and what it was denied. */
  readonly onEgress: (record: EgressRecord) => void;
  /** So many records of what the guest reached are missing. */
  readonly onMissed?: ((count: number) => void) | undefined;
};
