// Resources of a sandbox, one file for each kind: how it is acquired, adopted by the next daemon, and released.
// Start, delete and the clean-up after a crash iterate over the list in index.ts.
import type { Logger } from 'pino';
import type { Engines } from '../../engines/choice.ts';
import type { Engine, SavedVm, Vm, VmPaths } from '../../engines/engine.ts';
import type { Guest } from '../../guest/guest.ts';
import type { RootfsSource } from '../../images/rootfs-source.ts';
import type { Faults } from '../../lib/faults.ts';
import type { LogStore, SandboxLog } from '../../logs/index.ts';
import type { EgressLog, Network, NetworkSlot } from '../../network/index.ts';
import type { SandboxSecrets } from '../../secrets/index.ts';
import type { Table } from '../../store/store.ts';
import type { Authorities } from '../authorities.ts';
import type { CommandCounts } from '../exec.ts';
import type { IdleSources } from '../idle/idle-watch.ts';
import type { LifecycleEvents } from '../lifecycle-events.ts';
import type { SandboxRecord } from '../record.ts';
import type { SavedGuest } from '../saved/saved-guest.ts';

export type Directories = { readonly dataDir: string; readonly runDir: string };
export type SandboxPaths = VmPaths & { readonly layerPath: string };

/** The part of `Network` that sandboxes need. */
export type SandboxNetworks = Pick<
  Network,
  | 'allocate'
  | 'create'
  | 'createAgain'
  | 'exists'
  | 'placed'
  | 'publish'
  | 'unpublish'
  | 'start'
  | 'adopt'
  | 'adoptPorts'
  | 'setPorts'
  | 'endConnections'
  | 'connections'
  | 'change'
  | 'changeSecrets'
  | 'shut'
  | 'namesOf'
  | 'isServed'
  | 'stop'
  | 'clear'
  | 'free'
  | 'destroy'
  | 'tidy'
>;

/** What every guest of this daemon boots from. */
export type GuestSystem = {
  readonly kernel: { readonly vmlinuxPath: string; readonly initramfsPath: string; readonly digest: string };
  /** The agent image, from which guests of generic templates run; absent: no generic templates. */
  readonly agentRootfs?: (() => Promise<RootfsSource>) | undefined;
  /** Resolves when it turns out that this image has to be made, which takes seconds. */
  readonly agentImageBegun?: Promise<void> | undefined;
};

/** The same for all sandboxes of a daemon. */
export type GuestSettings = {
  /** From the VMM's start to the agent's answer. */
  readonly bootTimeoutMs: number;
  /** Maximum processes of one command in a guest; 0: derived from the guest's size. */
  readonly pidsLimit: number;
  /** Whether the whole disk of a sandbox is allocated at its start, not on write. */
  readonly reservesDisks: boolean;
  /** A guest agent that does not answer for this long hangs; 0: never. */
  readonly watchdogTimeoutMs: number;
};

/** What all sandboxes of a daemon share. */
export type ResourceContext = {
  /** Choose the engine for new VMs. */
  readonly engines: Engines;
  /** Every engine: a sandbox stays with the engine that started it. */
  readonly adopters: readonly Engine[];
  readonly system: GuestSystem;
  readonly settings: GuestSettings;
  readonly directories: Directories;
  readonly records: Table<SandboxRecord>;
  /** Absent when this daemon keeps no logs. */
  readonly logs?: LogStore | undefined;
  readonly egressLog: EgressLog;
  readonly authorities: Authorities;
  readonly network: SandboxNetworks;
  readonly secrets: SandboxSecrets;
  readonly faults: Faults;
  readonly events: LifecycleEvents;
  readonly commandCounts: CommandCounts;
  readonly idle: IdleSources;
};

export type StartFrom =
  /**
   * `memoryPath`: back the guest's memory by this new file. `layerPath`: copy this layer instead of an empty one.
   * `template`: save the guest as this template before it has its own identity.
   */
  | {
      readonly kind: 'boot';
      readonly memoryPath?: string;
      readonly layerPath?: string;
      readonly template?: BootedTemplate | undefined;
    }
  | { readonly kind: 'saved'; readonly saved: SavedGuest }
  /** The memory of a paused sandbox, with the layer that it has. `beforeRun`: right before its guest runs. */
  | { readonly kind: 'paused'; readonly saved: SavedVm; readonly beforeRun: () => Promise<void> };

/** A template that is made of the guest that a create boots. */
export interface BootedTemplate {
  /** Size of the guest's layer when it is saved. */
  readonly diskBytes: number;
  /** What its save may take longer than a boot. */
  readonly extraMs: number;
  /** The service of the create runs, once the save has resolved. */
  readonly hasService: boolean;
  /** The create must do without it, and may have to boot again. */
  readonly hasFailed: boolean;
  /** Resolves when the guest can be used, maybe without a template. AppError if its profile's service does not run. */
  save(start: StartContext, signal: AbortSignal): Promise<void>;
  /**
   * The create has ended, by `failure` if there is one. What was saved is completed from now on, and may become a
   * template even so.
   */
  createEnded(failure?: unknown): void;
}

/** Handles of a sandbox in this process. Each resource sets its own. */
export type Handles = {
  vm?: Vm | undefined;
  guest?: Guest | undefined;
  sandboxLog?: SandboxLog | undefined;
  network?: NetworkSlot | undefined;
};

/** A sandbox with a record. */
export type SandboxContext = {
  readonly id: string;
  readonly context: ResourceContext;
  readonly paths: SandboxPaths;
  /** As it is in the registry. */
  readonly record: SandboxRecord;
  readonly handles: Handles;
  /** Milliseconds that its start took, by stage; absent when an earlier daemon started it. */
  readonly times?: Record<string, number>;
  readonly log: Logger;
};

/** A sandbox that is being started. */
export type StartContext = SandboxContext & {
  /** The engine of its VM. */
  readonly engine: Engine;
  readonly origin: StartFrom;
  /** No client waits for it: its VMM gives way to everything else. */
  readonly isBackground: boolean;
  /** Fires when the create is cancelled, times out or is aborted. */
  readonly signal: AbortSignal;
  /** Aborts the start at once, because it can no longer succeed. */
  abortStart(reason: Error): void;
  /** Changes the record, also in the registry. `also`: writes of the same transaction. */
  update(change: Partial<SandboxRecord>, also?: () => void): Promise<void>;
};

/** A sandbox that is being removed, or whose start failed. After a crash only its id may be known, without a record. */
export type TeardownContext = Omit<SandboxContext, 'record'> & {
  readonly record: SandboxRecord | undefined;
  /** Whether it was ever visible to users; only then its log is kept. */
  readonly wasVisible: boolean;
  /** Why it ended, for the errors of calls in progress: `sandbox sbx_… was deleted`. */
  readonly reason: string;
};

export interface Resource {
  /** The stage that an error of `acquire` names. */
  stage(origin: StartFrom): string;
  /** Acquires it. After a failure, `release` and `sweep` undo what was acquired so far. */
  acquire(start: StartContext): Promise<void>;
  /** Adopts the resource of an earlier daemon's sandbox. The VM may have exited. */
  adopt?(sandbox: SandboxContext): Promise<void>;
  /**
   * Frees what other sandboxes may need or clients may reach, before a delete is answered. Can be called again after
   * a failure.
   */
  release?(teardown: TeardownContext): Promise<void>;
  /** Frees the rest, which is slow, after every resource was released. Can be called again. */
  sweep?(teardown: TeardownContext): Promise<void>;
}
