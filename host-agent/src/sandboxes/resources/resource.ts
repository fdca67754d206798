// What a sandbox owns, one file a kind: how it is got, found again by the next daemon, and given back. Start, delete and
// the clean-up after a crash are walks through the list of them (index.ts).
import type { Logger } from 'pino';
import type { Engines } from '../../engines/choice.ts';
import type { Engine, Vm } from '../../engines/engine.ts';
import type { Guest } from '../../guest/guest.ts';
import type { RootfsSource } from '../../images/rootfs-source.ts';
import type { Faults } from '../../lib/faults.ts';
import type { LogStore, SandboxLog } from '../../logs/index.ts';
import type { Network, NetworkSlot } from '../../network/index.ts';
import type { Table } from '../../store/store.ts';
import type { Clock, Counters } from '../idle/idle-watch.ts';
import type { LifecycleEvents } from '../lifecycle-events.ts';
import type { SandboxRecord } from '../record.ts';
import type { SavedGuest } from '../saved/saved-guest.ts';
import type { Directories, SandboxPaths } from './paths.ts';

/** What all sandboxes of a daemon share. */
export type ResourceContext = {
  /** For new VMs. */
  readonly engines: Engines;
  /** Every engine there is: a sandbox stays with its own, whichever is chosen for new ones. */
  readonly adopters: readonly Engine[];
  readonly kernel: { readonly vmlinuxPath: string; readonly initramfsPath: string; readonly digest: string };
  /** The root of guests that are saved before they have one; absent: there is none, and no such guests. */
  readonly agentRootfs?: (() => Promise<RootfsSource>) | undefined;
  readonly directories: Directories;
  readonly records: Table<SandboxRecord>;
  /** Whether a sandbox gets all of its disk at once, not as it writes. */
  readonly reservesDisks: boolean;
  /** Absent when this daemon keeps no logs. */
  readonly logs?: LogStore | undefined;
  /** Absent where no sandbox can have one. */
  readonly network?: Network | undefined;
  readonly faults: Faults;
  readonly events: LifecycleEvents;
  /** From the VMM's start to the agent's answer. */
  readonly bootTimeoutMs: number;
  /** Most processes of one command in a guest; 0: by the guest's size. */
  readonly pidsLimit: number;
  /** Absent: the host's. Idle sandboxes are told by it. */
  readonly idleClock?: Clock | undefined;
  /** Absent: those of the VM. */
  readonly readCounters?: ((id: string) => Counters | undefined) | undefined;
  /** A guest agent that does not answer for this long hangs; 0 never. */
  readonly watchdogTimeoutMs: number;
};

export type StartFrom =
  /** `memoryPath`: keep the guest's memory in this new file. `layerPath`: its layer is a copy of this one, not an empty one. */
  | { readonly kind: 'boot'; readonly memoryPath?: string; readonly layerPath?: string }
  | { readonly kind: 'saved'; readonly saved: SavedGuest };

/** What a sandbox holds in this process. Each resource fills in its own. */
export type Handles = {
  vm?: Vm | undefined;
  guest?: Guest;
  sandboxLog?: SandboxLog | undefined;
  network?: NetworkSlot | undefined;
};

/** A sandbox of which there is a record. */
export type SandboxContext = {
  readonly id: string;
  readonly context: ResourceContext;
  readonly paths: SandboxPaths;
  /** As it is in the registry. */
  readonly record: SandboxRecord;
  readonly handles: Handles;
  /** Milliseconds that making it took, by stage; absent when an earlier daemon made it. */
  readonly times?: Record<string, number>;
  readonly log: Logger;
};

/** One that is being made. */
export type StartContext = SandboxContext & {
  /** Of its VM. */
  readonly engine: Engine;
  readonly origin: StartFrom;
  /** Fires when nobody wants it any more, or it takes too long. */
  readonly signal: AbortSignal;
  /** The guest can come to nothing any more, so nobody waits for it. */
  abortStart(reason: Error): void;
  /** Changes the record, in the registry too. */
  update(change: Partial<SandboxRecord>): Promise<void>;
};

/** One that exists no longer, or was never whole. There may be no record: what a crash leaves has an id at least. */
export type TeardownContext = Omit<SandboxContext, 'record'> & {
  readonly record: SandboxRecord | undefined;
  /** Whether anybody ever heard of it: only then its log is worth keeping. */
  readonly wasKnown: boolean;
  /** Why it is over, for those who still talk to its guest: `sandbox sbx_… was deleted`. */
  readonly why: string;
};

export interface Resource {
  /** The stage that a failure to get it names. */
  stage(origin: StartFrom): string;
  /** Gets it. What it has got when it fails is given back by `release`. */
  acquire(start: StartContext): Promise<void>;
  /** Finds again what an earlier daemon's sandbox has. The VM may have ended. */
  adopt?(sandbox: SandboxContext): Promise<void>;
  /** Gives back what others may want, or may meet. A delete answers behind that. Can be called again after a failure. */
  release?(teardown: TeardownContext): Promise<void>;
  /** Gives back the rest of it, which only takes time, once every resource was released. Can be called again. */
  sweep?(teardown: TeardownContext): Promise<void>;
}
