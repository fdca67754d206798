// The client: the daemon and the collections of its resources.
import { platform } from '#platform';
import { readText } from './connection/answers.ts';
import { Requests } from './connection/requests.ts';
import type { Bytes, Transport } from './connection/transport.ts';
import type {
  CallOptions,
  CreateOptions,
  DeletedSandboxes,
  Health,
  HostChecks,
  HostInfo,
  KeyedOptions,
  ListOptions,
  ListSandboxesOptions,
  NetworkPreset,
  Profiles,
  SandboxEvent,
  SandboxFilter,
  SandboxInfo,
  SnapshotInfo,
  UpdateOptions,
  WhoAmI,
} from './contract.ts';
import { type EventOptions, followEvents } from './events.ts';
import { counted, Images } from './images.ts';
import { type LogOptions, readLogs } from './logs.ts';
import { Sandbox, Snapshot } from './sandbox.ts';
import { Secrets } from './secrets.ts';

const DEFAULT_RETRIES = 2;

export type ClientOptions = {
  /** `http://host:port`, `https://host:port` or `unix:/path`. Default: `SANDBOXD_HOST`, or the loopback address. */
  readonly host?: string;
  /** Default: `SANDBOXD_API_KEY`. */
  readonly apiKey?: string;
  /**
   * Trusted CA certificates (PEM) instead of the system's. Default: the file that `SANDBOXD_CA` names. Not in browsers.
   */
  readonly ca?: string;
  /** Replaces the connection to `host`. */
  readonly transport?: Transport;
  /** Maximum retries of idempotent requests and of requests that never reached the daemon. Default: 2. */
  readonly retries?: number;
  /** Maximum wait for an answer, for calls without their own limit. Default: none. */
  readonly timeoutMs?: number;
};

function connect({ host, ca }: ClientOptions, apiKey: string | undefined): Transport {
  const options = { host: host ?? platform.defaultHost(), ca: ca ?? platform.defaultCa(), apiKey };
  return platform.createTransport(options);
}

export class Client {
  readonly sandboxes: Sandboxes;
  readonly snapshots: Snapshots;
  readonly images: Images;
  readonly secrets: Secrets;
  readonly #requests: Requests;

  constructor(options: ClientOptions = {}) {
    const { transport } = options;
    // An empty key counts as no key, as an empty variable does.
    const apiKey =
      (transport === undefined ? (options.apiKey ?? platform.defaultApiKey()) : options.apiKey) || undefined;
    this.#requests = new Requests({
      transport: transport ?? connect(options, apiKey),
      apiKey,
      retries: options.retries ?? DEFAULT_RETRIES,
      timeoutMs: options.timeoutMs,
    });
    this.sandboxes = new Sandboxes(this.#requests);
    this.snapshots = new Snapshots(this.#requests);
    this.images = new Images(this.#requests);
    this.secrets = new Secrets(this.#requests);
  }

  /** Resolves when the daemon answers. Older daemons do not name their version. */
  health(options: CallOptions = {}): Promise<Health> {
    return this.#requests.call('health', options);
  }

  /** Profiles, and the engine that runs sandboxes. */
  profiles(options: CallOptions = {}): Promise<Profiles> {
    return this.#requests.call('listProfiles', options);
  }

  /** What `sandboxd doctor --quick` finds on the host. */
  checkHost(options: CallOptions = {}): Promise<HostChecks> {
    return this.#requests.call('checkHost', options);
  }

  /** Hosts of the fleet, by name, also those that do not answer; of a daemon alone, itself. */
  async hosts(options: CallOptions = {}): Promise<readonly HostInfo[]> {
    return (await this.#requests.call('listHosts', options)).hosts;
  }

  /** Presets of networks that the key may use. */
  async networkPresets(options: CallOptions = {}): Promise<readonly NetworkPreset[]> {
    return (await this.#requests.call('listNetworkPresets', options)).presets;
  }

  /** Version of the daemon's API. */
  async interfaceVersion(options: CallOptions = {}): Promise<string> {
    const document = await this.#requests.call('describe', options);
    return (document as { readonly info: { readonly version: string } }).info.version;
  }

  /** The metrics of the daemon, as OpenMetrics text. */
  async metrics(options: CallOptions = {}): Promise<string> {
    return readText(await this.#requests.stream('readMetrics', options));
  }

  /** Lifecycle events of sandboxes and snapshots. Reconnects after a lost connection and resumes at the last event. */
  events(options?: EventOptions): AsyncGenerator<SandboxEvent, void> {
    return followEvents(this.#requests, options);
  }

  /** What the key may do, and the use of its limits. */
  whoami(options: CallOptions = {}): Promise<WhoAmI> {
    return this.#requests.call('whoami', options);
  }
}

export class Sandboxes {
  readonly #requests: Requests;

  constructor(requests: Requests) {
    this.#requests = requests;
  }

  /**
   * Creates a sandbox, or returns the one of its name with `if_exists: 'return'`; resolves when its guest has booted.
   * If the signal aborts before, the daemon rolls the create back, unless it has an `idempotencyKey`.
   */
  async create({
    signal,
    timeoutMs,
    idempotencyKey,
    ...body
  }: CreateOptions & KeyedOptions = {}): Promise<Sandbox> {
    const call = { body, signal, timeoutMs, idempotencyKey };
    // An answer behind the abort may be about a sandbox of others, which must not be deleted.
    if (body.if_exists === 'return') {
      const { id } = await this.#requests.call('createSandbox', call);
      return this.get(id);
    }
    return this.#requests.create('createSandbox', call, ({ id }) => this.get(id));
  }

  async list({
    signal,
    timeoutMs,
    limit,
    ...filter
  }: ListSandboxesOptions = {}): Promise<readonly SandboxInfo[]> {
    const isFiltered = Object.values(filter).some((value) => value !== undefined);
    // A daemon that does not know a filter refuses it then, and does not list everything.
    const headers = isFiltered ? { prefer: 'handling=strict' } : {};
    const call = { query: filter, headers, signal, timeoutMs };
    return this.#requests.list('listSandboxes', call, ({ sandboxes }) => sandboxes, limit);
  }

  /** Changes name, labels or timeouts of a sandbox: all of them, or none. */
  update(id: string, changes: UpdateOptions, options?: CallOptions): Promise<SandboxInfo> {
    return this.get(id).update(changes, options);
  }

  /** Deletes the sandboxes that match all filters, of which at least one is needed. */
  deleteAll({ signal, timeoutMs, ...query }: SandboxFilter & CallOptions): Promise<DeletedSandboxes> {
    return this.#requests.call('deleteSandboxes', { query, signal, timeoutMs });
  }

  /** A handle for an existing sandbox, without a request. */
  get(id: string): Sandbox {
    return new Sandbox(this.#requests, id);
  }

  /** The log of a sandbox, even a deleted one. */
  logs(id: string, options?: LogOptions): ReturnType<typeof readLogs> {
    return readLogs(this.#requests, id, options);
  }
}

export type ImportSnapshotOptions = KeyedOptions & {
  /** Discards its memory: sandboxes boot from its disk, so engine and CPU may differ. */
  readonly isDiskOnly?: boolean;
  /** Called with the number of bytes sent. */
  readonly onProgress?: (sentBytes: number) => void;
};

export class Snapshots {
  readonly #requests: Requests;

  constructor(requests: Requests) {
    this.#requests = requests;
  }

  async list({ labels, name, ...options }: ListOptions = {}): Promise<readonly SnapshotInfo[]> {
    const query = { label: labels, name };
    return this.#requests.list('listSnapshots', { ...options, query }, ({ snapshots }) => snapshots);
  }

  /** A handle for an existing snapshot, without a request. */
  get(id: string): Snapshot {
    return new Snapshot(this.#requests, id);
  }

  /** Imports a snapshot that another daemon exported. ConflictError with the incompatibility. */
  async import(
    archive: Bytes | Uint8Array,
    { isDiskOnly = false, onProgress, ...options }: ImportSnapshotOptions = {},
  ): Promise<Snapshot> {
    const bytes = onProgress ? counted(archive, onProgress) : archive;
    const query = isDiskOnly ? { disk_only: 1 } : {};
    const call = { query, bytes, ...options };
    return this.#requests.create('importSnapshot', call, ({ id }) => this.get(id));
  }
}
