// The interface of a virtual machine monitor. Each implementation has a folder beside this file.

import type { ByteLink } from '@sandboxd/proto';
import type { Logger } from 'pino';
import type { ProcessId } from '../lib/proc.ts';
import type { Jail, JailIdentity } from './jail/jail.ts';

export type Disk = {
  readonly path: string;
  readonly isReadOnly: boolean;
};

/** A network device, attached to a tap in the network namespace that the VMM runs in. */
export type Net = {
  /** Path of the namespace. */
  readonly namespace: string;
  /** Name of the tap: up, persistent, and accessible to every user. */
  readonly tap: string;
  /** The guest's MAC address: six lower-case hexadecimal octets with colons. A fork may have its source's. */
  readonly mac: string;
};

/** Everything that determines the guest's hardware. Two VMs of equal spec have the same device layout. */
export type VmSpec = {
  readonly vcpus: number;
  readonly memoryMib: number;
  /** Uncompressed kernel with a PVH entry, and its initramfs. */
  readonly kernelPath: string;
  readonly initramfsPath: string;
  /** Appended to the engine's own kernel command line. */
  readonly bootArgs: string;
  /**
   * First the root file system, then the writable layer, then the agent's image if the root does not contain the agent.
   */
  readonly disks: readonly Disk[];
  /** Absent: no network. A fork of a guest without one may have one. */
  readonly net?: Net;
};

/** Directories of one VM incarnation, created and removed by the caller; JSON-safe. */
export type VmPaths = {
  /** Contains logs. */
  readonly dir: string;
  /** Contains sockets. Must be short: a socket path has at most 107 bytes. */
  readonly socketDir: string;
};

/** What a later daemon needs to find a VMM again; JSON-safe. */
export type VmmIdentity = {
  readonly engine: string;
  readonly pid: number;
  /** Field 22 of /proc/<pid>/stat: it differs if the pid was reused. */
  readonly startTicks: number;
  /** The host's boot in which pid and startTicks are valid. */
  readonly bootId: string;
  readonly paths: VmPaths;
  readonly memory: GuestMemory;
  /** Absent: it runs as the daemon's user. */
  readonly jail?: JailIdentity;
};

/** A running VMM process, with its socket directory. */
export type FoundVmm = ProcessId & { readonly socketDir: string };

/** A file and its `key`, which changes when the file is replaced or modified. */
export type FileVersion = { readonly path: string; readonly key: string };

/** How the host holds a guest's memory. */
export type GuestMemory =
  /** Anonymous memory. `isBooted`: of a booted guest, so that pages which the host does not have are zeros. */
  | { readonly kind: 'anonymous'; readonly isBooted?: true }
  /** A file that contains all of it. */
  | { readonly kind: 'file'; readonly path: string }
  /**
   * A private copy-on-write mapping of a saved guest's memory. `path` is its name in /proc/<pid>/maps, without
   * "(deleted)". `origin`, while it exists, has the same content.
   */
  | { readonly kind: 'copy-on-write'; readonly path: string; readonly origin?: FileVersion };

/** A saved guest; any number of VMs can be restored from it, also concurrently. */
export type SavedVm = {
  readonly memoryPath: string;
  readonly statePath: string;
};

export type WrittenVm = SavedVm & {
  /** How long the guest was paused until everything was written. */
  readonly pausedMs: number;
  /**
   * Present if only changes were written: `memoryPath` is the unchanged `base` or `since`, which becomes the guest's
   * memory when these changes are applied (see page-log.ts).
   */
  readonly changesPath?: string;
};

export type SaveOptions = {
  /** Existing directory for the files, on the VM's own file system. The files must not exist in it yet. */
  readonly dir: string;
  /** The guest's memory size; the VMM's own report is not trusted. */
  readonly memoryBytes: number;
  /** Runs right before the guest is paused; again if the pause is retried. */
  readonly beforePause?: () => Promise<void>;
  /** Runs while the guest is paused, for what must be of the same moment as its memory. */
  readonly whilePaused: () => Promise<void>;
  /** Called when the guest resumes, or could not be paused: once after each `beforePause`. */
  readonly afterPause?: () => void;
  /** Leave the VM paused: the caller does not need it any more. */
  readonly staysPaused?: boolean;
  /** With `staysPaused`: runs while the guest is paused and everything is written. If it rejects, the guest resumes. */
  readonly commit?: (written: WrittenVm) => Promise<void>;
  /**
   * The memory file that this VM was restored from with `ownsMemory`. If it still maps exactly that file, only pages
   * that differ from it are written.
   */
  readonly base?: string;
  /**
   * What an earlier `save` of this VM object has written as its memory, and nothing has changed since. It goes before
   * `base`: only pages that differ from it are written, unless this VMM's pages cannot be read.
   */
  readonly since?: string;
};

export type VmExit = {
  /** Why it ended, as a lower-case phrase: `the guest panicked`, `killed by SIGKILL`. */
  readonly reason: string;
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** It ended with the host, which was rebooted: when a daemon found that. */
  readonly rebootFoundAtMs?: number;
};

/** One running virtual machine. */
export interface Vm {
  readonly identity: VmmIdentity;
  /**
   * Resolves when the VMM process has exited, for whatever reason. A VMM whose guest has ended is killed if it does not
   * exit by itself. Never rejects.
   */
  readonly exited: Promise<VmExit>;
  /** Undefined while it runs. */
  readonly exit: VmExit | undefined;
  /**
   * Opens a connection to the guest's agent port. The previous one must be destroyed first. May wait for the agent
   * until `signal` fires.
   */
  openChannel(signal?: AbortSignal): Promise<{ readonly link: ByteLink; readonly needsResync: boolean }>;
  /**
   * Writes memory and device state. The guest is paused as briefly as possible and then resumed, also if the save fails
   * (the rejection has the stage). Returns how long it was paused.
   */
  save(options: SaveOptions): Promise<WrittenVm>;
  /** Grows a disk, by its index in the spec, to `sizeBytes`; the guest sees the new size at once. */
  resizeDisk(index: number, sizeBytes: number): Promise<void>;
  /** Sends SIGKILL; resolves when the VMM has exited. */
  kill(): Promise<void>;
  /** Why the VMM has paused the guest, such as a full host disk; undefined while it runs. */
  readonly ioPauseReason: string | undefined;
  /** Whether the guest is known to have ended and the VMM is about to exit, which can take long on a busy host. */
  isEnding(): Promise<boolean>;
  /** Whether the VMM answers on its control socket within `timeoutMs`. */
  responds(timeoutMs: number): Promise<boolean>;
  /** The guest kernel's last message about a blocked task, for example one that waits for its disk; for the log. */
  readBlockedTask(): Promise<string | undefined>;
  /** Releases the VM: it continues to run, and this object must not be used any more. */
  detach(): void;
  /** The last lines of the guest's console and of the VMM's log. For the log, not for clients. */
  diagnose(): Promise<string>;
}

export type EngineProbe =
  /** `detail` says how guests run, e.g. which accelerator and why not a faster one. */
  | {
      readonly isUsable: true;
      readonly version: string;
      readonly detail: string;
      /** Engine-specific data to cache with the result. */
      readonly memo?: string;
    }
  | { readonly isUsable: false; readonly reason: string };

export type UsableEngine = Extract<EngineProbe, { readonly isUsable: true }>;

/** How a fork gets its memory; `auto`: the best mode that works. */
export type ForkMemory = 'auto' | 'copy-on-write' | 'on-demand' | 'copy';

/** What an engine needs for its probe. */
export type EngineContext = {
  /** Path of the engine's program; absent: found in PATH. */
  readonly program?: string | undefined;
  readonly forkMemory: ForkMemory;
  /** Jail of its VMMs; absent: they run with the daemon's user and privileges. */
  readonly jail?: Jail | undefined;
  /**
   * Paths of our helper programs: claim takes over a file from the process that wrote it; memfd copies a file into
   * sealed memory.
   */
  readonly claimProgram: string;
  readonly memfdProgram: string;
  /** Timeout for a guest to boot, be saved and be restored; absent: long enough for any host. */
  readonly probeTimeoutMs?: number | undefined;
  readonly kernelPath: string;
  readonly initramfsPath: string;
  /** An existing directory for temporary probe files, with a path short enough for sockets. */
  readonly scratchDir: string;
  /** The KVM device, for tests; absent: the usual one. */
  readonly kvmPath?: string;
  readonly log: Logger;
};

export type BootOptions = {
  readonly spec: VmSpec;
  readonly paths: VmPaths;
  /** Maximum size of the writable disk; absent: its current size. */
  readonly diskBytes?: number;
  readonly log: Logger;
  /** Called with the identity as soon as the process exists, so that it is recorded. */
  readonly onSpawn?: (identity: VmmIdentity) => void | Promise<void>;
  /** Called when the guest resumes after the VMM paused it: its clock did not advance. */
  readonly onResumed?: () => void;
  /**
   * Called when the VMM pauses the guest because the host's disk rejects its writes; `cause` is a lower-case phrase.
   */
  readonly onIoPause?: (cause: string) => void;
  readonly signal?: AbortSignal;
  /** A throw-away guest without resource limits. Its files may be in tmpfs, which does not support O_DIRECT. */
  readonly isTrial?: boolean;
};

export type ColdBootOptions = BootOptions & {
  /** The VM is booted to be saved: an engine that supports it keeps the guest's memory in this new file. */
  readonly memoryPath?: string;
};

export type RestoreOptions = BootOptions & {
  readonly saved: SavedVm;
  /**
   * No other VM uses the saved memory, and its file does not change while this VM exists: the VMM maps the file itself.
   */
  readonly ownsMemory?: boolean;
  /**
   * Runs when the guest is loaded, right before it runs. If it rejects, the guest has not run and the VM is ended. Once
   * it has resolved, `signal` has no effect any more.
   */
  readonly beforeRun?: () => Promise<void>;
};

export type AdoptOptions = { readonly log: Logger; readonly onResumed?: () => void };

/** One program with one accelerator: each accelerator of a program is an engine of the same name. */
export interface Engine {
  readonly name: string;
  /** Short name of the way it runs guests. */
  readonly accelerator: string;
  /** Software emulation: the baseline for speed comparisons, and not an isolation boundary. */
  readonly isEmulation: boolean;
  /**
   * Why guests certainly do not run here, found without a guest and at once: for example, its program is missing.
   * Undefined where only `probe` shows it.
   */
  obstacle(): Promise<string | undefined>;
  /**
   * Whether guests run on this host: boots a throw-away guest up to our own program, saves it, and runs a fork of it.
   * This or `recall` must precede `boot`. Rejects with the signal's reason only.
   */
  probe(signal?: AbortSignal): Promise<EngineProbe>;
  /** What the result of `probe` depends on besides machine and kernel: the program, the device. JSON-safe. */
  fingerprint(): Promise<Readonly<Record<string, string>>>;
  /** Replaces `probe` by its cached result for the same fingerprint. */
  recall(probe: UsableEngine): void;
  /**
   * Cold-boots a VM. Rejects with the stage and the cause; then nothing is left running, and the diagnosis is logged.
   */
  boot(options: ColdBootOptions): Promise<Vm>;
  /** Finds out what each start needs to know of the program, so that the next one does not have to. */
  prepare(): Promise<void>;
  /** Starts a VM from a saved one; it runs when this resolves. Its spec must equal the saved one's except for paths. */
  restore(options: RestoreOptions): Promise<Vm>;
  /**
   * Whether a fork may have disks with other contents and sizes than the saved VM, as long as no guest driver had bound
   * them: then a generic template without a root file system can be saved. Absent: its disks must be copies of the
   * saved ones.
   */
  readonly takesOtherDisks?: boolean;
  /** Memory of the VMM process of a booted guest besides that guest's; absent: as of a copy. */
  readonly bootedOverheadMib?: number | undefined;
  /** Host memory that all its forks share, in addition to their own; absent: 0. */
  readonly sharedBytes?: number;
  /** By how much a restore of `saved` would raise `sharedBytes`; absent: 0. */
  neededBytes?(saved: SavedVm): Promise<number>;
  /** What a saved VM depends on besides its spec: only an engine with equal values can restore it. JSON-safe. */
  compatibility(): Readonly<Record<string, string>>;
  /**
   * Re-attaches to a VM that an earlier daemon started; null if exactly that VMM does not run any more. Does not wait
   * for its control socket. A paused guest is resumed, and `onResumed` is called, as its clock did not advance.
   */
  adopt(identity: VmmIdentity, options: AdoptOptions): Vm | null;
  /** Why a VM that `adopt` did not find may have ended; a guess from the files that it left. */
  explainEnd(identity: VmmIdentity): Promise<string>;
  /**
   * Running VMMs of this engine whose socket directory is in `runDir`, started by this daemon or another. Needs no
   * probe.
   */
  findVmms(runDir: string): FoundVmm[];
}
