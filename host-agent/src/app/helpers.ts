// Programs of ours that the daemon starts, and files that are built with it.

/** Paths of programs of ours. */
export type Helpers = {
  /** Directory of the guest agent. */
  readonly agent: string;
  /** Jails VMMs. */
  readonly jail: string;
  /** Takes a file over from who has written it. */
  readonly claim: string;
  /** Tells users of the host apart by their connections. */
  readonly peers: string;
  /** Makes a copy of a file in sealed memory. */
  readonly memfd: string;
  /** Runs scripts of ours in processes of their own. */
  readonly runtime: string;
  /** Script that makes root filesystems of layers. */
  readonly converter: string;
  /** Makes network namespaces. */
  readonly netd: string;
  /** Holds published ports. */
  readonly portd: string;
  /** Has the `node_modules` with runtimes that built-in recipes take from npm. */
  readonly npm: string;
  /** Directory of a prepared kernel, for a host without one; absent: it has to be made there. */
  readonly kernel?: string | undefined;
};
