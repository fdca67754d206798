// The library's names of the API schemas.
import type { Schemas } from './gen/schemas.ts';

export type SandboxInfo = Schemas['SandboxResponse'];
export type CreateOptions = Schemas['CreateSandboxRequest'];
export type UpdateOptions = Schemas['UpdateSandboxRequest'];
export type DeletedSandboxes = Schemas['DeletedSandboxes'];
/** All of them must match. */
export type SandboxFilter = {
  /** `key=value`, or `key` for any value. */
  readonly label?: readonly string[];
  readonly state?: SandboxInfo['state'];
  readonly name?: string;
  readonly profile?: string;
  /** Reference or digest. */
  readonly image?: string;
};
export type ListSandboxesOptions = SandboxFilter &
  CallOptions & {
    /** Maximum number of entries, the oldest; default: all. */
    readonly limit?: number | undefined;
  };
export type SandboxStats = Schemas['SandboxStats'];
export type SandboxEvent = Schemas['Event'];
export type SnapshotInfo = Schemas['SnapshotResponse'];
export type SnapshotTreeNode = Schemas['SnapshotTree']['nodes'][number];
export type FileDifference = Schemas['SnapshotDiff']['files'][number];
export type SnapshotOptions = Schemas['SnapshotRequest'];
export type SnapshotChanges = Schemas['ChangeSnapshotRequest'];
export type ImageChanges = Schemas['ChangeImageRequest'];
export type ForkOptions = Schemas['ForkReq'];
export type ImageInfo = Schemas['ImageResponse'];
export type ErrorCode = Schemas['ErrorResponse']['code'];
export type ExecResult = Schemas['ExecResult'];
export type CommandInfo = Schemas['Command'];
export type NetworkRule = Schemas['NetworkRule'];
export type NetworkPolicy = Schemas['NetworkPolicy'];
export type ChangedNetwork = Schemas['ChangedNetworkPolicy'];
export type NetworkChanges = Schemas['NetworkPatch'];
export type NetworkTargets = Schemas['NetworkReplacement'];
export type NetworkVerdict = Schemas['NetworkVerdict'];
export type EgressRecord = Schemas['EgressRecord'];
export type NetworkPreset = Schemas['NetworkPresetList']['presets'][number];
export type SecretInfo = Schemas['StoredSecret'];
export type SecretToStore = Schemas['StoreSecret'];
export type OpenPort = Schemas['OpenPort'];
export type PublishedPort = Schemas['PublishedPort'];
export type PortLink = Schemas['MadeLink'];
export type ListedLink = Schemas['LinkList']['links'][number];
export type ServiceSpec = Schemas['ServiceSpec'];
export type ServiceStatus = Schemas['ServiceStatus'];
export type LogRecord = Schemas['LogRecord'];
export type Health = Schemas['HealthResponse'];
export type HostInfo = Schemas['Host'];
export type Profiles = Schemas['ProfilesResponse'];
export type HostChecks = Schemas['HostChecksResponse'];
export type WhoAmI = Schemas['WhoamiResponse'];
export type PushResult = Schemas['PushResult'];
export type FileEntry = Schemas['FileEntry'];
export type WatchEvent = Schemas['WatchEvent'];
export type CopyResult = Schemas['CopyResult'];
export type TerminalSize = Schemas['ResizeFrame'];

/** Common options of all calls. */
export type CallOptions = {
  /** Cancels the call; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Maximum wait for the answer; the call rejects with a TimeoutError that names the request. Default: none. */
  readonly timeoutMs?: number | undefined;
};

/** Options of lists. */
export type ListOptions = CallOptions & {
  /** Only entries with all of these labels: `key=value`, or `key` alone. */
  readonly labels?: readonly string[] | undefined;
  /** Only the entry of this name. */
  readonly name?: string | undefined;
};

/** Options of calls that make something. */
export type KeyedOptions = CallOptions & {
  /**
   * Identifies the call for a day: another call with the same key and arguments gets the answer of the first and makes
   * nothing again. With a key the call is repeated as one that changes nothing, and the daemon finishes it even if it
   * is cancelled here.
   */
  readonly idempotencyKey?: string | undefined;
};
