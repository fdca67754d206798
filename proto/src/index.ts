// The agent protocol: the only code shared by host and guest.
export * from './architecture.ts';
export * from './byte-queue.ts';
export * from './channel/channel.ts';
export * from './channel/guest-connection.ts';
export * from './channel/host-connection.ts';
export type * from './channel/link.ts';
export * from './channel/stream.ts';
export * from './errors.ts';
export * from './limits.ts';
export * from './long-timer.ts';
export * from './message-list.ts';
export * from './messages.ts';
export * from './service-records.ts';
export * from './tar/index.ts';
export * from './watch-records.ts';
