// The TypeScript types of the native addon, which does what Node cannot. Every method throws an Error with `code` and
// `syscall` unless its comment documents another result.
import { constants } from 'node:os';
import process from 'node:process';
import { AGENT_DIR } from '@sandboxd/proto';

/** Result of a non-blocking call that would block. */
export const NOT_NOW: number = -constants.errno.EAGAIN;

/** The directory argument of calls that take absolute paths (AT_FDCWD). */
export const NO_DIRECTORY = -100;

export type SpawnSpec = {
  /** Lists are one string; a zero byte ends each item. */
  readonly candidates: string;
  readonly argv: string;
  readonly env: string;
  readonly cwd: string;
  readonly stdin: number;
  readonly stdout: number;
  readonly stderr: number;
  /** 1: descriptor 0 is a terminal and becomes the controlling terminal. */
  readonly terminal: 0 | 1;
  /** Descriptor of the cgroup's directory, or -1 for the agent's own. */
  readonly cgroup: number;
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
};

export interface Addon {
  // poll.cc
  startPolling(events: Uint32Array, callback: (count: number) => void): void;
  stopPolling(): void;
  watch(fd: number, id: number, mask: number): void;
  rewatch(fd: number, id: number, mask: number): void;
  unwatch(fd: number): void;
  // io.cc
  read(fd: number, buffer: Uint8Array, offset: number, length: number): number;
  write(fd: number, buffer: Uint8Array, offset: number, length: number): number;
  writeGathered(fd: number, chunks: readonly Uint8Array[]): number;
  pipe(ours: 0 | 1, sizeBytes: number): [number, number];
  available(fd: number): number;
  socketPair(): [number, number];
  open(path: string, flags: number): number;
  close(fd: number): void;
  // frames.cc
  writeFrom(link: number, source: number, stream: number, flow: number, length: number): number;
  takeUnwritten(): Buffer | undefined;
  // direct-file.cc: one file at a time each way
  startDirectWrite(fd: number, sizeBytes: number): boolean;
  writeDirect(buffer: Uint8Array, offset: number, length: number): number;
  endDirectWrite(): number;
  startDirectRead(fd: number): boolean;
  // link-write.cc
  startLinkWrite(link: number, stream: number, target: number, targetBytes: number): void;
  runLinkWrite(maxBytes: number, numbers: Float64Array, unread: Uint8Array): number;
  stopLinkWrite(): void;
  // files.cc
  openDirectory(directory: number, name: string): number;
  makeDirectory(directory: number, name: string, mode: number): void;
  removeDirectory(directory: number, name: string): number;
  readText(directory: number, name: string): string;
  writeText(directory: number, name: string, text: string): number;
  /** 0 or a negative error number. */
  replaceText(path: string, text: string): number;
  // tree-read.cc, tree-make.cc: names are byte strings, results are numbers, -errno on failure; nothing throws
  openBeneath(directory: number, name: string, flags: number, resolve: number): number;
  createFile(parent: number, leaf: string): number;
  writeAt(fd: number, buffer: Uint8Array, offset: number, length: number, position: number): number;
  finishFile(fd: number, sizeBytes: number, mode: number, seconds: number, nanos: number): number;
  putFile(
    parent: number,
    leaf: string,
    buffer: Uint8Array,
    offset: number,
    length: number,
    mode: number,
    seconds: number,
    nanos: number,
  ): number;
  addDirectory(parent: number, leaf: string): number;
  addSymlink(parent: number, leaf: string, target: string, seconds: number, nanos: number): number;
  addLink(fromParent: number, fromLeaf: string, parent: number, leaf: string): number;
  removeFile(parent: number, leaf: string): number;
  openFile(path: string, status: Float64Array): number;
  openEntry(directory: number, leaf: string, status: Float64Array): number;
  statusOf(fd: number, status: Float64Array): number;
  statusAt(directory: number, leaf: string, status: Float64Array): number;
  readLink(directory: number, leaf: string): string | number;
  nextEntries(directory: number): string | number;
  // tree-change.cc
  /** Sets the effective user of this thread; `actAs(0, 0, [])` before anything else may run. */
  actAs(uid: number, gid: number, groups: readonly number[]): number;
  /** What this thread creates belongs to them, with root's rights; `ownAs(0, 0)` before anything else may run. */
  ownAs(uid: number, gid: number): number;
  reopen(place: number, flags: number): number;
  changeMode(fd: number, mode: number): number;
  changeOwner(fd: number, uid: number, gid: number): number;
  changeTime(fd: number, seconds: number, nanos: number): number;
  /** Extended attributes of the namespace `user`: names without it and values in turn, as byte strings. */
  attributesOf(directory: number, leaf: string): readonly string[] | number;
  setAttribute(fd: number, name: string, value: Uint8Array): number;
  removeAttribute(fd: number, name: string): number;
  renameEntry(fromParent: number, fromLeaf: string, parent: number, leaf: string, replaces: 0 | 1): number;
  removeEmpty(parent: number, leaf: string): number;
  copyBytes(from: number, to: number, length: number): number;
  seek(fd: number, position: number): number;
  mayWrite(parent: number, leaf: string): number;
  /** Microseconds since 1970 of the clock that stamps changes of files. */
  coarseClock(): number;
  // inotify.cc
  openInotify(): number;
  watchDirectory(inotify: number, place: number, mask: number): number;
  unwatchDirectory(inotify: number, number: number): number;
  // spawn.cc
  spawn(spec: SpawnSpec): number;
  // children.cc
  childEvents(): number;
  peekEnded(): number;
  reap(pid: number, out: Float64Array): boolean;
  kill(pid: number, signal: number): number;
  // system.cc
  mount(source: string, target: string, type: string, flags: number, options: string): void;
  unmount(target: string, flags: number): void;
  /** Creates a device node; `type` and mode as in `st_mode`. An existing file is kept without an error. */
  makeDevice(path: string, mode: number, major: number, minor: number): void;
  setHostname(name: string): void;
  setClock(unixTimeUs: number): void;
  /** Shifts the clock by `us` unless that is 0. Returns the resulting time, in microseconds since 1970. */
  shiftClock(us: number): number;
  addEntropy(bytes: Uint8Array): void;
  /** Writes the cached data of all file systems to their disks. */
  sync(): void;
  /** The same, while the agent and its commands go on. */
  syncInBackground(): Promise<void>;
  bringUp(interfaceName: string): void;
  runInBatches(): void;
  limitFiles(count: number): void;
  holdCode(): void;
  trimMemory(): void;
  growFileSystem(directory: string, blocks: number): void;
  // root.cc
  /**
   * Switches the root to the disks, with the agent's image as the top layer. The options are for the writable layer's
   * mount. `code` and `syscall` of the error name the failed step.
   */
  enterRoot(layerOptions: string): void;
  // memory-directory.cc
  /**
   * Moves a directory's content, except its entry `leftOut`, to a tmpfs mounted in its place. Returns 0 or a negative
   * error number; on an error the directory is unchanged. E2BIG: it has more than `entries` entries or `bytes` bytes.
   */
  moveToMemory(path: string, entries: number, bytes: number, leftOut: string): number;
  // network.cc
  /** Binds the driver to the network device. Returns the interface's name. */
  bindInterface(): string;
  /** Unbinds the driver; does nothing when there is no interface. */
  unbindInterface(): void;
  /**
   * MACs are six bytes, addresses dotted text. The interface is up on return, without other routes, neighbours or
   * addresses.
   */
  setInterface(
    name: string,
    mac: Uint8Array,
    address: string,
    prefixLength: number,
    gateway: string,
    gatewayMac: Uint8Array,
  ): void;
  // connections.cc
  /** Aborts all TCP connections except those within the guest. Returns their number. */
  abortConnections(): number;
  /**
   * The same for open connections of that IPv4 address that are not in `kept`, where each has 8 bytes: the own port,
   * the peer's port and the peer's address.
   */
  abortForgotten(address: Uint8Array, kept: Uint8Array): number;
  // ports.cc: results are numbers, -errno on failure; nothing throws
  /** `address`: of this guest. Returns a descriptor; the connection is made or has failed when it is writable. */
  connectPort(address: string, port: number): number;
  portConnected(fd: number): number;
  receive(fd: number, buffer: Uint8Array, offset: number, length: number): number;
  send(fd: number, buffer: Uint8Array, offset: number, length: number): number;
  endSending(fd: number): number;
  resetAndClose(fd: number): void;
  // tty.cc
  openTerminal(columns: number, rows: number): [number, number];
  resizeTerminal(master: number, columns: number, rows: number): number;
  endCharacter(master: number): number;
  // vsock.cc
  listenVsock(port: number): number;
  acceptVsock(listener: number, cid: number): number;
}

function load(): Addon {
  const module: { exports: unknown } = { exports: {} };
  // Not require(): in a single executable it finds only Node's own modules.
  process.dlopen(module, `${process.env.SANDBOX_AGENT_DIR ?? AGENT_DIR}/agent.node`);
  return module.exports as Addon;
}

export const addon: Addon = load();
