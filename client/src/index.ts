// The library: `Client` and its types.
export * from './client.ts';
export {
  type Code,
  type CodeContextInfo,
  CodeError,
  type CodeFailure,
  type CodeOptions,
  type CodeResult,
  type CreateContextOptions,
  type Execution,
} from './code.ts';
export {
  Attachment,
  type AttachOptions,
  Command,
  Commands,
  type DetachOptions,
  type StoredChunk,
} from './commands.ts';
export type { Bytes } from './connection/transport.ts';
export * from './contract.ts';
export * from './errors.ts';
export type { EventOptions } from './events.ts';
export type { Chunk } from './exec/exec.ts';
export { Exec, type ExecOptions, type Stdin } from './exec/exec.ts';
export type { Files } from './files/files.ts';
export type {
  Conditions,
  FileChanges,
  FileContent,
  FileOptions,
  FileStream,
  ListOptions,
  PushOptions,
  ReadOptions,
  ReplaceOptions,
  StatOptions,
  WriteOptions,
} from './files/options.ts';
export {
  type ImageListOptions,
  Images,
  type ImportOptions,
  type PullOptions,
  type PullProgress,
} from './images.ts';
export type { LogOptions } from './logs.ts';
export type { CheckOptions, EgressOptions, Network } from './network.ts';
export type { LinkOptions, OpenPortOptions, Ports, PublishOptions } from './ports.ts';
export { Sandbox, Snapshot, type TerminalOptions } from './sandbox.ts';
export type { ListSecretsOptions, Secrets } from './secrets.ts';
export type { Service } from './service.ts';
