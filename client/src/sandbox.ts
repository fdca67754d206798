// One sandbox and what can be done with it; one snapshot, of which sandboxes are made.
import { readLines } from './connection/lines.ts';
import type { Requests } from './connection/requests.ts';
import type { Bytes } from './connection/transport.ts';
import type {
  CallOptions,
  ForkOptions,
  LogRecord,
  SandboxInfo,
  SandboxStats,
  SnapshotInfo,
  TerminalSize,
} from './contract.ts';
import { NotFoundError } from './errors.ts';
import { Exec, type ExecOptions } from './exec/exec.ts';
import { Files } from './files/files.ts';
import { type LogOptions, readLogs } from './logs.ts';
import { Service } from './service.ts';

const DEFAULT_SHELL = ['bash'];
const DEFAULT_SIZE: TerminalSize = { cols: 80, rows: 24 };

/** `await using` deletes it at the end of the block. */
export class Sandbox implements AsyncDisposable {
  readonly id: string;
  readonly files: Files;
  readonly service: Service;
  readonly #requests: Requests;

  constructor(requests: Requests, id: string) {
    this.id = id;
    this.#requests = requests;
    this.files = new Files(requests, id);
    this.service = new Service(requests, id);
  }

  /** What the daemon says of it. NotFoundError when it is gone. */
  info(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#requests.ask('getSandbox', { params: { id: this.id }, ...options });
  }

  /** Starts a command. */
  exec(cmd: readonly string[], options?: ExecOptions): Exec {
    return new Exec(this.#requests, this.id, cmd, options);
  }

  /** A command with a terminal, whose input is open; a shell unless `cmd` says something else. */
  terminal({ cmd = DEFAULT_SHELL, size = DEFAULT_SIZE, ...options }: TerminalOptions = {}): Exec {
    return this.exec(cmd, { ...options, tty: size, stdin: true });
  }

  /** Its durable log: what commands and the service said. */
  logs(options?: LogOptions): AsyncGenerator<LogRecord, void> {
    return readLogs(this.#requests, this.id, options);
  }

  /** What it takes of the host. */
  stats(options: CallOptions = {}): Promise<SandboxStats> {
    return this.#requests.ask('readStats', { params: { id: this.id }, ...options });
  }

  /** The same each second, with the share of CPU time from the second on, until it is gone or the loop is left. */
  async *watchStats(options: CallOptions = {}): AsyncGenerator<SandboxStats, void> {
    const accept = 'application/x-ndjson';
    const { body } = await this.#requests.stream('readStats', {
      params: { id: this.id },
      accept,
      ...options,
    });
    for await (const line of readLines(body)) yield JSON.parse(line) as SandboxStats;
  }

  /** Saves it as it is; it goes on. */
  async snapshot(options: CallOptions = {}): Promise<Snapshot> {
    const call = { params: { id: this.id }, ...options };
    return this.#requests.make('takeSnapshot', call, ({ id }) => new Snapshot(this.#requests, id));
  }

  /** Destroys it; its log stays. */
  async delete(options: CallOptions = {}): Promise<void> {
    await this.#requests.ask('deleteSandbox', { params: { id: this.id }, ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await dispose(this.#requests, 'deleteSandbox', this.id);
  }
}

export type TerminalOptions = Omit<ExecOptions, 'tty' | 'stdin'> & {
  readonly cmd?: readonly string[];
  readonly size?: TerminalSize;
};

/** `await using` deletes it at the end of the block; its forks go on. */
export class Snapshot implements AsyncDisposable {
  readonly id: string;
  readonly #requests: Requests;

  constructor(requests: Requests, id: string) {
    this.id = id;
    this.#requests = requests;
  }

  info(options: CallOptions = {}): Promise<SnapshotInfo> {
    return this.#requests.ask('getSnapshot', { params: { id: this.id }, ...options });
  }

  /** New sandboxes that go on where the snapshot was taken, all or none; one unless `count` says more. */
  async fork({ signal, timeoutMs, ...body }: ForkOptions & CallOptions = {}): Promise<Sandbox[]> {
    const call = { params: { id: this.id }, body, signal, timeoutMs };
    return this.#requests.makeAll('forkSnapshot', call, ({ sandboxes }) =>
      sandboxes.map(({ id }) => new Sandbox(this.#requests, id)),
    );
  }

  /** All of it as one stream, for `snapshots.import` of another daemon. What was in the guest's memory is in it, keys included. */
  async export(options: CallOptions = {}): Promise<Bytes> {
    return (await this.#requests.stream('exportSnapshot', { params: { id: this.id }, ...options })).body;
  }

  async delete(options: CallOptions = {}): Promise<void> {
    await this.#requests.ask('deleteSnapshot', { params: { id: this.id }, ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await dispose(this.#requests, 'deleteSnapshot', this.id);
  }
}

/** What is to be away and is away already is fine, so it may be asked for twice. */
async function dispose(
  requests: Requests,
  name: 'deleteSandbox' | 'deleteSnapshot',
  id: string,
): Promise<void> {
  try {
    await requests.ask(name, { params: { id }, isIdempotent: true });
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
  }
}
