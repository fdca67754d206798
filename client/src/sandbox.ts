// A sandbox and its operations; a snapshot, from which sandboxes are forked.
import type { Duplex } from 'node:stream';
import { Code } from './code.ts';
import { Commands } from './commands.ts';
import { readLines } from './connection/lines.ts';
import type { Requests } from './connection/requests.ts';
import type { Bytes } from './connection/transport.ts';
import type {
  CallOptions,
  FileDifference,
  ForkOptions,
  KeyedOptions,
  LogRecord,
  SandboxInfo,
  SandboxStats,
  SnapshotChanges,
  SnapshotInfo,
  SnapshotOptions,
  SnapshotTreeNode,
  TerminalSize,
  UpdateOptions,
} from './contract.ts';
import { NotFoundError } from './errors.ts';
import { Exec, type ExecOptions } from './exec/exec.ts';
import { Files } from './files/files.ts';
import { type LogOptions, readLogs } from './logs.ts';
import { Network } from './network.ts';
import { Ports } from './ports.ts';
import { Service } from './service.ts';

const DEFAULT_SHELL = ['bash'];
const DEFAULT_SIZE: TerminalSize = { cols: 80, rows: 24 };

/** `await using` deletes the sandbox at the end of the block. */
export class Sandbox implements AsyncDisposable {
  readonly id: string;
  readonly files: Files;
  readonly service: Service;
  readonly commands: Commands;
  readonly ports: Ports;
  readonly network: Network;
  /** Of a sandbox of the profile `code`. */
  readonly code: Code;
  readonly #requests: Requests;

  constructor(requests: Requests, id: string) {
    this.id = id;
    this.#requests = requests;
    this.files = new Files(requests, id);
    this.service = new Service(requests, id);
    this.commands = new Commands(requests, id);
    this.ports = new Ports(requests, id);
    this.network = new Network(requests, id);
    this.code = new Code(requests, id);
  }

  /** NotFoundError when it does not exist. */
  info(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#requests.call('getSandbox', { params: { id: this.id }, ...options });
  }

  /** Changes name, labels or timeouts: all of them, or none. ConflictError when another sandbox has the name. */
  update(changes: UpdateOptions, options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#requests.call('updateSandbox', { params: { id: this.id }, body: changes, ...options });
  }

  /** Starts a command. */
  exec(cmd: readonly string[], options?: ExecOptions): Exec {
    return new Exec(this.#requests, this.id, cmd, options);
  }

  /** Starts a command with a terminal and open input; default: a shell. */
  terminal({ cmd = DEFAULT_SHELL, size = DEFAULT_SIZE, ...options }: TerminalOptions = {}): Exec {
    return this.exec(cmd, { ...options, tty: size, stdin: true });
  }

  /**
   * A TCP connection to a port in the sandbox, which needs no network; each direction ends by itself. ApiError with the
   * code port_not_listening where nothing listens. Only in Node: browsers have the WebSocket of the same path.
   */
  connect(port: number, options: CallOptions = {}): Promise<Duplex> {
    return this.#requests.tunnel('connectPort', { params: { id: this.id, port: String(port) }, ...options });
  }

  /** The stored log: output of commands and of the service. */
  logs(options?: LogOptions): AsyncGenerator<LogRecord, void> {
    return readLogs(this.#requests, this.id, options);
  }

  /** Resource usage. */
  stats(options: CallOptions = {}): Promise<SandboxStats> {
    return this.#requests.call('readStats', { params: { id: this.id }, ...options });
  }

  /**
   * Resource usage every second until the sandbox is gone or the loop ends; the CPU share is present from the second
   * sample on.
   */
  async *watchStats(options: CallOptions = {}): AsyncGenerator<SandboxStats, void> {
    const accept = 'application/x-ndjson';
    const { body } = await this.#requests.stream('readStats', {
      params: { id: this.id },
      accept,
      ...options,
    });
    for await (const line of readLines(body)) yield JSON.parse(line) as SandboxStats;
  }

  /** Takes a snapshot; the sandbox keeps running. */
  async snapshot({
    signal,
    timeoutMs,
    idempotencyKey,
    ...body
  }: SnapshotOptions & KeyedOptions = {}): Promise<Snapshot> {
    // Older daemons take no body.
    const says = Object.keys(body).length > 0 && { body };
    const call = { params: { id: this.id }, ...says, signal, timeoutMs, idempotencyKey };
    return this.#requests.create('takeSnapshot', call, ({ id }) => new Snapshot(this.#requests, id));
  }

  /**
   * Saves the sandbox and frees its memory and CPUs; does nothing if it is paused. A call that needs the guest
   * resumes it. `memory` false keeps only the disk: the sandbox boots again.
   */
  pause({ memory = true, ...options }: PauseOptions = {}): Promise<SandboxInfo> {
    return this.#requests.call('pauseSandbox', { params: { id: this.id }, body: { memory }, ...options });
  }

  /** Resumes a paused sandbox; does nothing if it runs. */
  resume(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#requests.call('resumeSandbox', { params: { id: this.id }, body: {}, ...options });
  }

  /**
   * Goes back to a snapshot of this sandbox, or one that it comes from: its memory and disk; what runs ends. Id, name,
   * addresses and ports stay. ConflictError when it does not come from that snapshot.
   */
  rollback(snapshot: string | Snapshot, options: CallOptions = {}): Promise<SandboxInfo> {
    const body = { snapshot_id: typeof snapshot === 'string' ? snapshot : snapshot.id };
    return this.#requests.call('rollbackSandbox', { params: { id: this.id }, body, ...options });
  }

  /** Forks the sandbox as it is, all or none; `count` defaults to 1. It keeps running, or stays paused. */
  fork(options: ForkOptions & KeyedOptions = {}): Promise<Sandbox[]> {
    return fork(this.#requests, 'forkSandbox', this.id, options);
  }

  /** Deletes the sandbox; its log stays. */
  async delete(options: CallOptions = {}): Promise<void> {
    await this.#requests.call('deleteSandbox', { params: { id: this.id }, ...options });
  }

  /** The paused sandbox as one stream, as `export` of a snapshot. It stays paused. */
  async export(options: CallOptions = {}): Promise<Bytes> {
    return (await this.#requests.stream('exportSandbox', { params: { id: this.id }, ...options })).body;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await dispose(this.#requests, 'deleteSandbox', this.id);
  }
}

export type PauseOptions = CallOptions & { readonly memory?: boolean };

export type TerminalOptions = Omit<ExecOptions, 'tty' | 'stdin'> & {
  readonly cmd?: readonly string[];
  readonly size?: TerminalSize;
};

/** `await using` deletes the snapshot at the end of the block; its forks keep running. */
export class Snapshot implements AsyncDisposable {
  readonly id: string;
  readonly #requests: Requests;

  constructor(requests: Requests, id: string) {
    this.id = id;
    this.#requests = requests;
  }

  info(options: CallOptions = {}): Promise<SnapshotInfo> {
    return this.#requests.call('getSnapshot', { params: { id: this.id }, ...options });
  }

  /** The snapshots and sandboxes of its tree, oldest first. Works for a deleted one while others came from it. */
  tree(options: CallOptions = {}): Promise<readonly SnapshotTreeNode[]> {
    const call = { params: { id: this.id }, ...options };
    return this.#requests.list('showSnapshotTree', call, ({ nodes }) => nodes);
  }

  /**
   * The files that differ between its disk and that of another snapshot, depth first; `other` is an id or a name. What
   * is only in the other one is `added`. ConflictError if they cannot be compared.
   */
  async *diff(other: string, options: CallOptions = {}): AsyncGenerator<FileDifference, void> {
    const call = { params: { id: this.id }, isIdempotent: true, ...options };
    for (let cursor: string | undefined; ; ) {
      const body = { with: other, ...(cursor !== undefined && { cursor }) };
      const page = await this.#requests.call('diffSnapshots', { ...call, body });
      yield* page.files;
      // An empty page with a cursor would loop forever.
      if (page.next_cursor === undefined || page.files.length === 0) return;
      cursor = page.next_cursor;
    }
  }

  /** Changes its name, comment, labels and expiry; null removes one, and what is not named stays. */
  change({ signal, timeoutMs, ...body }: SnapshotChanges & CallOptions): Promise<SnapshotInfo> {
    const call = { params: { id: this.id }, body, signal, timeoutMs };
    return this.#requests.call('changeSnapshot', call);
  }

  /** Forks sandboxes from the snapshot, all or none; `count` defaults to 1. */
  fork(options: ForkOptions & KeyedOptions = {}): Promise<Sandbox[]> {
    return fork(this.#requests, 'forkSnapshot', this.id, options);
  }

  /**
   * The whole snapshot as one stream, for `snapshots.import` of another daemon. It contains the guest's memory,
   * including keys.
   */
  async export(options: CallOptions = {}): Promise<Bytes> {
    return (await this.#requests.stream('exportSnapshot', { params: { id: this.id }, ...options })).body;
  }

  async delete(options: CallOptions = {}): Promise<void> {
    await this.#requests.call('deleteSnapshot', { params: { id: this.id }, ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await dispose(this.#requests, 'deleteSnapshot', this.id);
  }
}

function fork(
  requests: Requests,
  name: 'forkSandbox' | 'forkSnapshot',
  id: string,
  { signal, timeoutMs, idempotencyKey, ...body }: ForkOptions & KeyedOptions,
): Promise<Sandbox[]> {
  const call = { params: { id }, body, signal, timeoutMs, idempotencyKey };
  return requests.createAll(name, call, ({ sandboxes }) =>
    sandboxes.map((each) => new Sandbox(requests, each.id)),
  );
}

/** A missing resource counts as deleted, which makes the request idempotent. */
async function dispose(
  requests: Requests,
  name: 'deleteSandbox' | 'deleteSnapshot',
  id: string,
): Promise<void> {
  try {
    await requests.call(name, { params: { id }, isIdempotent: true });
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
  }
}
