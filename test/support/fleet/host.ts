// A host of a test's fleet.
import type {
  KubeClient,
  LocalSandboxes,
  NodeAgent,
  NodeIdentity,
  PlaceRecord,
  PodRecord,
} from '../../../host-agent/src/fleet/index.ts';
import type { Authenticator, HttpServer } from '../../../host-agent/src/http/index.ts';
import type { HttpServices } from '../../../host-agent/src/http/services.ts';
import type { IngressServer } from '../../../host-agent/src/ingress/index.ts';
import type { KeyRegistry } from '../../../host-agent/src/keys/index.ts';
import type { SnapshotStore } from '../../../host-agent/src/snapshot-store/index.ts';
import type { Issued } from '../../http/certificates.ts';
import type { E2b } from '../../http/e2b-front.ts';
import type { Keyring } from '../../http/keyed.ts';
import type { MemoryDaemon, MemoryDaemonOptions } from '../memory-host/daemon.ts';
import type { HostPodsOptions } from './foreign.ts';

export type FleetHost = {
  readonly name: string;
  readonly url: string;
  readonly daemon: MemoryDaemon;
  readonly agent: NodeAgent;
  readonly server: HttpServer;
  readonly ingress: IngressServer | undefined;
  readonly ingressPort: number;
  readonly e2b: E2b | undefined;
  readonly records: { all(): { readonly id: string; readonly record: PlaceRecord }[] };
  /** Of pods of others. */
  readonly podRecords: { all(): { readonly id: string; readonly record: PodRecord }[] };
  /** Of its Node, if it asked for one. */
  readonly identity: NodeIdentity | undefined;
  readonly client: KubeClient;
  /** As a kill: the sandboxes go on, and the API server is told nothing. */
  crash(): Promise<void>;
};

export type HostOptions = MemoryDaemonOptions & {
  readonly authenticator?: Authenticator;
  /** Follows the keys of the fleet. */
  readonly sharedKeys?: KeyRegistry;
  readonly maxKeys?: number;
  readonly token?: string;
  readonly unusedMs?: number;
  /** Delays the creates that gateways send it. */
  readonly beforeAdmit?: () => Promise<void>;
  /** Until it has joined; by default, unless it has a token. */
  readonly isAwaited?: boolean;
  readonly fenceMs?: number;
  readonly instance?: string;
  /** It has an ingress: ports of sandboxes lead to that port of this machine. */
  readonly ports?: number;
  /** Of the ingress. */
  readonly issued?: Issued;
  /** It has a front for clients of E2B, with these keys. */
  readonly e2b?: Keyring;
  /** Where its templates of clients of E2B are, too. */
  readonly templateStore?: Pick<SnapshotStore, 'templates' | 'isDeleted'>;
  /** With an identity of its own, for which it asks with that token; `''`: it has none any more. */
  readonly bootstrapToken?: string;
  /** It runs pods of others. */
  readonly pods?: HostPodsOptions;
  /** What it has; may be changed. */
  readonly holdings?: readonly string[];
  /** Of its identity. */
  readonly now?: () => number;
  readonly checkMs?: number;
  /** Of its REST interface. */
  readonly services?: Partial<HttpServices>;
  /** In place of what the fleet asks of its sandboxes. */
  readonly local?: Partial<LocalSandboxes>;
};
