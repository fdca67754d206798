export type { CommandMark, StreamMark } from './command-marks.ts';
export { LogStore, type LogStoreOptions, logsAreOff } from './log-store.ts';
export type { LogPage, LogQuery } from './read-log.ts';
export { type CapturePosition, LOG_SOURCES, type LogRecord, type LogSource } from './record.ts';
export type { SandboxLog } from './sandbox-log.ts';
