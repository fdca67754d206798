// What a virtual machine monitor must be able to do for us. Implementations live in one folder each beside this file.

import type { ByteLink } from '@sandboxd/proto';
import type { Logger } from 'pino';
import type { ProcessId } from '../lib/proc.ts';
import type { Jail, JailIdentity } from './jail/jail.ts';

export type Disk = {
  readonly path: string;
  readonly isReadOnly: boolean;
};

/** A network device, joined to a tap of the network namespace that the VMM runs in. */
export type Net = {
  /** Path of the namespace. */
  readonly namespace: string;
  /** Name of the tap: up, there to stay, and for every user to open. */
  readonly tap: string;
  /** Of the guest's side; six lower-case hexadecimal octets with colons. A copy may have its source's. */
  readonly mac: string;
};

/** Everything that decides what the guest sees. Two VMs of equal spec have the same device layout. */
export type VmSpec = {
  readonly vcpus: number;
  readonly memoryMib: number;
  /** Uncompressed kernel with a PVH entry, and its initramfs. */
  readonly kernelPath: string;
  readonly initramfsPath: string;
  /** Appended to the engine's own kernel command line. */
  readonly bootArgs: string;
  /** Root filesystem first, writable layer second, and third the image that the agent runs from, where that is not the root. */
  readonly disks: readonly Disk[];
  /** Absent: the guest reaches nobody. A copy of a guest without may have one. */
  readonly net?: Net;
};

/** Where one incarnation of a VM keeps its files. Both are made and removed by the caller; JSON-safe. */
export type VmPaths = {
  /** Logs. */
  readonly dir: string;
  /** Sockets. Short: a socket path has at most 107 bytes. */
  readonly socketDir: string;
};

/** What a later daemon needs to find a VMM again; JSON-safe. */
export type VmmIdentity = {
  readonly engine: string;
  readonly pid: number;
  /** Field 22 of /proc/<pid>/stat: the process is the same one only if this is equal. */
  readonly startTicks: number;
  /** The host's boot in which that is so. */
  readonly bootId: string;
  readonly paths: VmPaths;
  readonly memory: GuestMemory;
  /** Absent: it runs as the daemon. */
  readonly jail?: JailIdentity;
};

/** A VMM process that was found, with its socket directory. */
export type FoundVmm = ProcessId & { readonly socketDir: string };

/** A file, and `key`, by which it is known whether that is still what it was. */
export type FileVersion = { readonly path: string; readonly key: string };

/** How the host holds a guest's memory. */
export type GuestMemory =
  /** In memory of its own, without a name. */
  | { readonly kind: 'anonymous' }
  /** A file that holds all of it. */
  | { readonly kind: 'file'; readonly path: string }
  /** A private copy-on-write mapping of a saved guest's memory; `path` as /proc/<pid>/maps has it, without "(deleted)". `origin` has the same content, as long as it is there. */
  | { readonly kind: 'copy-on-write'; readonly path: string; readonly origin?: FileVersion };

/** What an engine wrote of a guest; any number of VMs can be restored from it, also at the same time. */
export type SavedVm = {
  readonly memoryPath: string;
  readonly statePath: string;
};

export type SaveOptions = {
  /** Existing directory for the files, on the file system of the VM's own; they must not be in it yet. */
  readonly dir: string;
  /** What the guest has of memory: what its VMM says of that is not believed. */
  readonly memoryBytes: number;
  /** Runs right before the guest is stopped; again when that has to be tried again. */
  readonly beforePause?: () => Promise<void>;
  /** Runs while the guest stands still, for what must be of the same moment as its memory. */
  readonly whilePaused: () => Promise<void>;
  /** Called when the guest goes on, and when it could not be stopped: once after each `beforePause`. */
  readonly afterPause?: () => void;
  /** Leave the VM paused: the caller has no more use for it. */
  readonly staysPaused?: boolean;
};

export type VmExit = {
  /** What ended it, as a lower-case phrase: `the guest panicked`, `killed by SIGKILL`. */
  readonly reason: string;
  readonly exitCode: number | null;
  readonly signal: string | null;
};

/** One running virtual machine. */
export interface Vm {
  readonly identity: VmmIdentity;
  /**
   * Resolves when the VMM process is gone, however that came. A VMM whose guest is over for good is ended, if it does not
   * end by itself. Never rejects.
   */
  readonly exited: Promise<VmExit>;
  /** Undefined while it runs. */
  readonly exit: VmExit | undefined;
  /**
   * A new connection to the guest's agent port; the one before it must be destroyed first. May wait for the agent, as
   * long as `signal` allows.
   */
  openChannel(signal?: AbortSignal): Promise<{ readonly link: ByteLink; readonly needsResync: boolean }>;
  /**
   * Writes memory and device state. The guest stands still as briefly as possible and then goes on, also when saving
   * fails (the rejection says the stage). Gives the time it stood still.
   */
  save(options: SaveOptions): Promise<SavedVm & { readonly pausedMs: number }>;
  /** Grows a disk, by its index in the spec, to `sizeBytes`; the guest sees it at once. */
  resizeDisk(index: number, sizeBytes: number): Promise<void>;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  /** Why the VMM holds the guest for now, such as a full disk of the host; undefined while it runs. */
  readonly ioPauseReason: string | undefined;
  /** Whether it is known that the guest is over and the VMM about to end, which may take a host that is busy its time. */
  isEnding(): Promise<boolean>;
  /** Whether the VMM answers on its control socket within `timeoutMs`. */
  responds(timeoutMs: number): Promise<boolean>;
  /** What the guest's kernel said last of a task that waits and cannot be ended, such as for its disk; for the log. */
  readBlockedTask(): Promise<string | undefined>;
  /** Lets go of it: it runs on, and this object must not be used any more. */
  detach(): void;
  /** Last lines of the guest's console and of the VMM's own log, for the log: not for clients. */
  diagnose(): Promise<string>;
}

export type EngineProbe =
  /** `detail` says how guests run, e.g. which accelerator and why not a faster one. */
  | {
      readonly isUsable: true;
      readonly version: string;
      readonly detail: string;
      /** What the engine wants to find again when the result is remembered. */
      readonly memo?: string;
    }
  | { readonly isUsable: false; readonly reason: string };

export type UsableEngine = Extract<EngineProbe, { readonly isUsable: true }>;

/** How a copy of a saved guest gets its memory; `auto`: the best way that works. */
export type ForkMemory = 'auto' | 'copy-on-write' | 'on-demand' | 'copy';

/** What an engine needs to try itself out. */
export type EngineContext = {
  /** Path of the engine's program; absent: the one that PATH finds. */
  readonly program?: string | undefined;
  readonly forkMemory: ForkMemory;
  /** Where its VMMs run; absent: as the daemon, with all that it may do. */
  readonly jail?: Jail | undefined;
  /** Paths of our own programs: one takes over a file from who has written it, one makes a copy of a file in sealed memory. */
  readonly claimProgram: string;
  readonly memfdProgram: string;
  /** How long a guest may take to boot, be saved and go on as a copy; absent: long enough for any host. */
  readonly probeTimeoutMs?: number | undefined;
  readonly kernelPath: string;
  readonly initramfsPath: string;
  /** An existing directory for short-lived probe files, short enough for sockets. */
  readonly scratchDir: string;
  /** Device of hardware virtualisation, for tests; absent: the usual one. */
  readonly kvmPath?: string;
  readonly log: Logger;
};

export type BootOptions = {
  readonly spec: VmSpec;
  readonly paths: VmPaths;
  /** What the writable disk may grow to; absent: it stays as large as it is. */
  readonly diskBytes?: number;
  readonly log: Logger;
  /** Called with the identity as soon as there is a process, so that a record of it exists. */
  readonly onSpawn?: (identity: VmmIdentity) => void | Promise<void>;
  /** Called when the guest goes on after the VMM held it, which its clock does not know. */
  readonly onResumed?: () => void;
  /** Called when the VMM holds the guest, as the host's disk does not take its writes; `cause` is a lower-case phrase. */
  readonly onStandstill?: (cause: string) => void;
  readonly signal?: AbortSignal;
  /** A throw-away guest, for which no limit is needed; its files may be in memory, which cannot be used past the host's page cache. */
  readonly isTrial?: boolean;
};

export type ColdBootOptions = BootOptions & {
  /** The VM is booted to be saved: an engine that can keeps the guest's memory in this new file. */
  readonly memoryPath?: string;
};

export type RestoreOptions = BootOptions & { readonly saved: SavedVm };

export type AdoptOptions = { readonly log: Logger; readonly onResumed?: () => void };

/** One program with one way to run guests: each accelerator of a program is an engine of the same name. */
export interface Engine {
  readonly name: string;
  /** How it runs guests, as a short name. */
  readonly accelerator: string;
  /** Guests run in software: the measure for what is faster, and no isolation boundary. */
  readonly isEmulation: boolean;
  /**
   * Whether guests really run here: boots a throw-away one to our own program, saves it, and has a copy go on. This or
   * `recall` must precede `boot`. Rejects with the signal's reason only.
   */
  probe(signal?: AbortSignal): Promise<EngineProbe>;
  /** What the result of `probe` depends on beside machine and kernel: the program, the device. JSON-safe. */
  fingerprint(): Promise<Readonly<Record<string, string>>>;
  /** Instead of `probe`, with what it gave when the fingerprint was the same. */
  recall(probe: UsableEngine): void;
  /** Starts a VM from its kernel. Rejects with the stage and the cause; nothing is left running then, the diagnosis is logged. */
  boot(options: ColdBootOptions): Promise<Vm>;
  /** Starts a VM as a copy of a saved one; it runs when this resolves. Its spec must be the saved one's but for paths. */
  restore(options: RestoreOptions): Promise<Vm>;
  /**
   * Whether a copy of a saved VM may have other files as its disks than the saved one had, of other sizes, as long as no driver
   * of the guest had them: then a guest can be saved before it has a root. Absent: its disks must be the saved ones' copies.
   */
  readonly takesOtherDisks?: boolean;
  /** Host memory that it holds for all its copies together, beside their own; absent: none. */
  readonly sharedBytes?: number;
  /** By how much a restore of it would raise that; absent: not at all. */
  neededBytes?(saved: SavedVm): Promise<number>;
  /** What a saved VM depends on beside its spec: only an engine with equal values can restore it. JSON-safe. */
  compatibility(): Readonly<Record<string, string>>;
  /**
   * Takes over a VM that an earlier daemon started; null when exactly that VMM does not run any more. Does not wait for
   * its control socket. A guest that was left paused goes on; `onResumed` is called then, as its clock stood still.
   */
  adopt(identity: VmmIdentity, options: AdoptOptions): Vm | null;
  /** Why a VM that `adopt` did not find any more may have ended; a guess from what it left behind. */
  explainEnd(identity: VmmIdentity): Promise<string>;
  /** Running VMMs of this engine that were started with their socket directory in `runDir`, by this daemon or another. No probe is needed. */
  findVmms(runDir: string): FoundVmm[];
}
