// The daemon, and what there is on it.
import { platform } from '#platform';
import { Requests } from './connection/requests.ts';
import type { Bytes } from './connection/transport.ts';
import type {
  CallOptions,
  CreateOptions,
  Profiles,
  SandboxEvent,
  SandboxInfo,
  SnapshotInfo,
  WhoAmI,
} from './contract.ts';
import { type EventOptions, followEvents } from './events.ts';
import { counted, Images } from './images.ts';
import { type LogOptions, readLogs } from './logs.ts';
import { Sandbox, Snapshot } from './sandbox.ts';

const DEFAULT_RETRIES = 2;

export type ClientOptions = {
  /** `http://host:port`, `https://host:port` or `unix:/path`; `SANDBOXD_HOST`, or the loopback address, by default. */
  readonly host?: string;
  /** `SANDBOXD_API_KEY` by default. */
  readonly apiKey?: string;
  /** Certificates to trust instead of the system's, PEM; those in the file that `SANDBOXD_CA` names by default. Not in browsers. */
  readonly ca?: string;
  /** How often a request that changes nothing, the delete of a disposal, or what never reached the daemon is sent again; 2 by default. */
  readonly retries?: number;
  /** Longest wait for an answer, of calls that have none of their own; none by default. */
  readonly timeoutMs?: number;
};

export class Client {
  readonly sandboxes: Sandboxes;
  readonly snapshots: Snapshots;
  readonly images: Images;
  readonly #requests: Requests;

  constructor(options: ClientOptions = {}) {
    const { host = platform.defaultHost(), ca = platform.defaultCa() } = options;
    // An empty key is none, as an empty variable is.
    const apiKey = (options.apiKey ?? platform.defaultApiKey()) || undefined;
    this.#requests = new Requests({
      transport: platform.createTransport({ host, apiKey, ca }),
      apiKey,
      retries: options.retries ?? DEFAULT_RETRIES,
      timeoutMs: options.timeoutMs,
    });
    this.sandboxes = new Sandboxes(this.#requests);
    this.snapshots = new Snapshots(this.#requests);
    this.images = new Images(this.#requests);
  }

  /** Resolves when the daemon answers. */
  async health(options: CallOptions = {}): Promise<void> {
    await this.#requests.ask('health', options);
  }

  /** What there is to boot from, and what runs it. */
  profiles(options: CallOptions = {}): Promise<Profiles> {
    return this.#requests.ask('listProfiles', options);
  }

  /** The version of the interface that the daemon speaks. */
  async interfaceVersion(options: CallOptions = {}): Promise<string> {
    const document = await this.#requests.ask('describe', options);
    return (document as { readonly info: { readonly version: string } }).info.version;
  }

  /** What happens to sandboxes and snapshots; a connection that is lost goes on where it was. */
  events(options?: EventOptions): AsyncGenerator<SandboxEvent, void> {
    return followEvents(this.#requests, options);
  }

  whoami(options: CallOptions = {}): Promise<WhoAmI> {
    return this.#requests.ask('whoami', options);
  }
}

export class Sandboxes {
  readonly #requests: Requests;

  constructor(requests: Requests) {
    this.#requests = requests;
  }

  /** A new sandbox, whose guest has answered. A signal that fires before rolls it back. */
  async create({ signal, timeoutMs, ...body }: CreateOptions & CallOptions = {}): Promise<Sandbox> {
    const call = { body, signal, timeoutMs };
    return this.#requests.make('createSandbox', call, ({ id }) => this.get(id));
  }

  async list(options: CallOptions = {}): Promise<readonly SandboxInfo[]> {
    return this.#requests.list('listSandboxes', options, ({ sandboxes }) => sandboxes);
  }

  /** One that is there, without asking. */
  get(id: string): Sandbox {
    return new Sandbox(this.#requests, id);
  }

  /** The log of a sandbox that is gone. */
  logs(id: string, options?: LogOptions): ReturnType<typeof readLogs> {
    return readLogs(this.#requests, id, options);
  }
}

export type ImportSnapshotOptions = CallOptions & {
  /** Boots it from its disk: engine and processor may be others, and what was in its memory is lost. */
  readonly isDiskOnly?: boolean;
  /** Told how much of the archive went out. */
  readonly onProgress?: (sentBytes: number) => void;
};

export class Snapshots {
  readonly #requests: Requests;

  constructor(requests: Requests) {
    this.#requests = requests;
  }

  async list(options: CallOptions = {}): Promise<readonly SnapshotInfo[]> {
    return this.#requests.list('listSnapshots', options, ({ snapshots }) => snapshots);
  }

  /** One that is there, without asking. */
  get(id: string): Snapshot {
    return new Snapshot(this.#requests, id);
  }

  /** One that another daemon exported. ConflictError naming what is different here. */
  async import(
    archive: Bytes | Uint8Array,
    { isDiskOnly = false, onProgress, ...options }: ImportSnapshotOptions = {},
  ): Promise<Snapshot> {
    const bytes = onProgress ? counted(archive, onProgress) : archive;
    const query = isDiskOnly ? { disk_only: 1 } : {};
    const call = { query, bytes, ...options };
    return this.#requests.make('importSnapshot', call, ({ id }) => this.get(id));
  }
}
