// What every step of the start gets: settings, helper programs, and the stack that releases what the step acquired.

import type { Logger } from 'pino';
import type { Config } from '../config/index.ts';
import type { Faults } from '../lib/faults.ts';

export type AppContext = {
  readonly config: Config;
  readonly log: Logger;
  readonly helpers: Helpers;
  /** The settings as a settings file has them. */
  readonly settings: string;
  /** Injected by tests. */
  readonly faults: Faults;
  /** Disposed in reverse order when the daemon stops or its start fails. */
  readonly resources: AsyncDisposableStack;
  /** Aborts when the daemon is stopped while it starts. */
  readonly signal: AbortSignal;
};

/** Paths of helper programs and files. */
export type Helpers = {
  /** Directory of the guest agent. */
  readonly agent: string;
  /** Puts a VMM into its jail. */
  readonly jail: string;
  /** Takes ownership of a file that a VMM has written. */
  readonly claim: string;
  /** Finds the host user of a loopback connection. */
  readonly peers: string;
  /** Copies a file into a sealed memfd. */
  readonly memfd: string;
  /** The Node.js runtime, which runs our scripts in separate processes. */
  readonly runtime: string;
  /** The script that converts image layers into a root filesystem. */
  readonly converter: string;
  /** Creates network namespaces. */
  readonly netd: string;
  /** `sandboxd doctor`: the program and its first arguments. */
  readonly doctor: readonly [program: string, ...args: string[]];
  /** Compares the disks of snapshots. */
  readonly diffdisks: string;
  /** Forwards published ports. */
  readonly portd: string;
  /** Relays the connections of guests that are bound to names. */
  readonly egressd: string;
  /** Reads the requests of guests, where rules need that: how it is started, and which files it reads. */
  readonly gateway: {
    readonly program: string;
    readonly args: readonly string[];
    readonly reads: readonly string[];
  };
  /** Its `node_modules` contain the runtimes that built-in recipes take from npm. */
  readonly npm: string;
  /** Directory of a prepared kernel, for hosts without one; absent: the operator must build one. */
  readonly kernel?: string | undefined;
};

/** Of Node, for the gateway. SIGUSR1 would open a debugger. Both heaps are below what it may hold in all. */
export const GATEWAY_OPTIONS = ['--disable-sigusr1', '--max-semi-space-size=4', '--max-old-space-size=192'];
