// The names under which the interface's shapes are known here.
import type { Schemas } from './gen/schemas.ts';

export type SandboxInfo = Schemas['SandboxResponse'];
export type CreateOptions = Schemas['CreateSandboxRequest'];
export type SandboxStats = Schemas['SandboxStats'];
export type SandboxEvent = Schemas['Event'];
export type SnapshotInfo = Schemas['SnapshotResponse'];
export type ForkOptions = Schemas['ForkReq'];
export type ImageInfo = Schemas['ImageResponse'];
export type ErrorCode = Schemas['ErrorResponse']['code'];
export type ExecResult = Schemas['ExecResult'];
export type ServiceSpec = Schemas['ServiceSpec'];
export type ServiceStatus = Schemas['ServiceStatus'];
export type LogRecord = Schemas['LogRecord'];
export type Profiles = Schemas['ProfilesResponse'];
export type WhoAmI = Schemas['WhoamiResponse'];
export type PushResult = Schemas['PushResult'];
export type TerminalSize = Schemas['ResizeFrame'];

/** What every call that waits can be given last. */
export type CallOptions = {
  /** Ends the call; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Longest wait for the answer; it rejects with a TimeoutError that says what was waited for. None by default. */
  readonly timeoutMs?: number | undefined;
};
