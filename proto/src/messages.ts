// Aliases of the generated message types. `XInput` is the argument of encode; `X` is the result of decode.
import './plain-numbers.ts';
import { sandboxd } from './gen/agent.js';

export const {
  Frame: FrameCodec,
  Request: RequestCodec,
  Result: ResultCodec,
  FileEntry: FileEntryCodec,
  FileAttribute: FileAttributeCodec,
  CommandStatus: CommandStatusCodec,
} = sandboxd.agent.v1;

/** A decoded message: scalars always have a value, message fields named in `Nested` may be absent. */
type Decoded<T, Nested extends keyof T = never> = {
  readonly [K in Exclude<keyof T, Nested | '$unknowns'>]-?: NonNullable<T[K]>;
} & { readonly [K in Nested]?: T[K] };

export type FrameInput = sandboxd.agent.v1.Frame.$Properties;
export type Frame = sandboxd.agent.v1.Frame;
export type Hello = Decoded<sandboxd.agent.v1.Hello.$Properties>;
export type HelloReply = Decoded<sandboxd.agent.v1.HelloReply.$Properties>;
export type HelloReplyInput = sandboxd.agent.v1.HelloReply.$Properties;
export type Request = sandboxd.agent.v1.Request;
export type RequestInput = sandboxd.agent.v1.Request.$Properties;
export type Result = sandboxd.agent.v1.Result;
export type ResultInput = sandboxd.agent.v1.Result.$Properties;
export type Part = Decoded<sandboxd.agent.v1.Part.$Properties>;
export type Ping = Decoded<sandboxd.agent.v1.Ping.$Properties>;
export type Pong = Decoded<sandboxd.agent.v1.Pong.$Properties>;
export type Signal = Decoded<sandboxd.agent.v1.Signal.$Properties>;
export type Started = Decoded<sandboxd.agent.v1.Started.$Properties, 'file'>;
export type TtySize = { readonly cols: number; readonly rows: number };
export type ExecInput = sandboxd.agent.v1.Exec.$Properties;
export type Exec = Decoded<sandboxd.agent.v1.Exec.$Properties, 'tty'>;
export type ExecResult = Decoded<sandboxd.agent.v1.ExecResult.$Properties, 'usage'>;
export type ExecResultInput = sandboxd.agent.v1.ExecResult.$Properties;
export type ResourceUsage = Decoded<sandboxd.agent.v1.ResourceUsage.$Properties>;
export type Identity = Decoded<sandboxd.agent.v1.Identity.$Properties, 'network' | 'trust'>;
export type IdentityInput = sandboxd.agent.v1.Identity.$Properties;
export type Network = Decoded<sandboxd.agent.v1.Network.$Properties>;
export type NetworkInput = sandboxd.agent.v1.Network.$Properties;
export type Trust = Decoded<sandboxd.agent.v1.Trust.$Properties>;
export type TrustInput = sandboxd.agent.v1.Trust.$Properties;
export type SetClock = Decoded<sandboxd.agent.v1.SetClock.$Properties>;
export type Wake = Decoded<sandboxd.agent.v1.Wake.$Properties>;
export type WakeInput = sandboxd.agent.v1.Wake.$Properties;
export type Connections = Decoded<sandboxd.agent.v1.Connections.$Properties>;
export type ConnectionsInput = sandboxd.agent.v1.Connections.$Properties;
export type Freeze = Decoded<sandboxd.agent.v1.Freeze.$Properties>;
export type StatsResult = Decoded<sandboxd.agent.v1.StatsResult.$Properties>;
export type ServiceSpec = Decoded<sandboxd.agent.v1.ServiceSpec.$Properties>;
export type ServiceConfigure = Decoded<sandboxd.agent.v1.ServiceConfigure.$Properties, 'spec'>;
export type ServiceControl = Decoded<sandboxd.agent.v1.ServiceControl.$Properties, 'graceMs'>;
export type ServiceOutput = Decoded<sandboxd.agent.v1.ServiceOutput.$Properties>;
export type ServiceOutputInput = sandboxd.agent.v1.ServiceOutput.$Properties;
export type ServiceOutputResult = Decoded<sandboxd.agent.v1.ServiceOutputResult.$Properties, 'ring'>;
export type ServiceRing = Decoded<sandboxd.agent.v1.ServiceRing.$Properties>;
export type ServiceStatus = Decoded<
  sandboxd.agent.v1.ServiceStatus.$Properties,
  'spec' | 'lastExit' | 'ring'
>;
export type ServiceStatusInput = sandboxd.agent.v1.ServiceStatus.$Properties;
export const { Verb: SERVICE_VERB } = sandboxd.agent.v1.ServiceControl;
export type CommandStatus = Decoded<sandboxd.agent.v1.CommandStatus.$Properties, 'tty' | 'result' | 'output'>;
export type CommandStatusInput = sandboxd.agent.v1.CommandStatus.$Properties;
export type CommandList = Decoded<sandboxd.agent.v1.CommandListResult.$Properties>;
export type CommandCall = Decoded<
  sandboxd.agent.v1.CommandCall.$Properties,
  'wait' | 'signal' | 'resize' | 'kill'
>;
export type CommandCallInput = sandboxd.agent.v1.CommandCall.$Properties;
export type CommandAttach = Decoded<sandboxd.agent.v1.CommandAttach.$Properties>;
export type CommandAttachInput = sandboxd.agent.v1.CommandAttach.$Properties;
export type CommandAttachResult = Decoded<sandboxd.agent.v1.CommandAttachResult.$Properties, 'status'>;
export const { CommandInput: COMMAND_INPUT } = sandboxd.agent.v1;
export type FilePush = Decoded<sandboxd.agent.v1.FilePush.$Properties>;
export type FilePull = Decoded<sandboxd.agent.v1.FilePull.$Properties>;
export type DirPull = Decoded<sandboxd.agent.v1.DirPull.$Properties>;
export type FilePlace = Decoded<sandboxd.agent.v1.FilePlace.$Properties>;
export type FileEntry = Decoded<sandboxd.agent.v1.FileEntry.$Properties>;
export type FileAttribute = Decoded<sandboxd.agent.v1.FileAttribute.$Properties, 'value'>;
export type FileAttributeInput = sandboxd.agent.v1.FileAttribute.$Properties;
export type FileEntryInput = sandboxd.agent.v1.FileEntry.$Properties;
export type FileCall = sandboxd.agent.v1.FileCall;
export type FileCallInput = sandboxd.agent.v1.FileCall.$Properties;
export type FileCallResult = Decoded<sandboxd.agent.v1.FileCallResult.$Properties, 'entry'>;
export type FileRead = Decoded<
  sandboxd.agent.v1.FileRead.$Properties,
  'place' | 'first' | 'last' | 'lastBytes'
>;
export type FileReadInput = sandboxd.agent.v1.FileRead.$Properties;
export type FileWrite = Decoded<sandboxd.agent.v1.FileWrite.$Properties, 'place' | 'mode'>;
export type FileWriteInput = sandboxd.agent.v1.FileWrite.$Properties;
export type FileList = Decoded<sandboxd.agent.v1.FileList.$Properties>;
export type MakeDirectory = Decoded<sandboxd.agent.v1.MakeDirectory.$Properties, 'mode'>;
export type FileMove = Decoded<sandboxd.agent.v1.FileMove.$Properties>;
export type FileChange = Decoded<sandboxd.agent.v1.FileChange.$Properties, 'mode' | 'mtimeUs'>;
export type FileWatch = Decoded<sandboxd.agent.v1.FileWatch.$Properties, 'place'>;
export type FileWatchInput = sandboxd.agent.v1.FileWatch.$Properties;
export const { Reason: WATCH_END } = sandboxd.agent.v1.FileWatchResult;
export type PortConnect = Decoded<sandboxd.agent.v1.PortConnect.$Properties>;
export type FileInfo = Decoded<sandboxd.agent.v1.FileInfo.$Properties, 'entry'>;
export type FileInfoInput = sandboxd.agent.v1.FileInfo.$Properties;
export type FilePushResult = Decoded<sandboxd.agent.v1.FilePushResult.$Properties>;

/** Byte flows of a stream: the host sends `in`, the guest `out` and `err`. */
export const FLOW = { in: 0, out: 1, err: 2 } as const;
export type Flow = (typeof FLOW)[keyof typeof FLOW];
