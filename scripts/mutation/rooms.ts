// What `make mutation` mutates, and which tests without guests are there to notice.

export type Room = { readonly source: string; readonly tests: readonly string[] };

export const ROOMS: Readonly<Record<string, Room>> = {
  sandboxes: { source: 'host-agent/src/sandboxes', tests: ['unit/host-agent/sandboxes'] },
  engines: { source: 'host-agent/src/engines', tests: ['unit/host-agent/engines', 'contract'] },
  guest: { source: 'host-agent/src/guest', tests: ['unit/host-agent/guest'] },
  http: { source: 'host-agent/src/http', tests: ['unit/host-agent/http', 'http'] },
  channel: { source: 'proto/src/channel', tests: ['unit/proto/channel'] },
  exec: { source: 'guest-agent/src/exec', tests: ['unit/guest-agent/exec'] },
  files: { source: 'guest-agent/src/files', tests: ['unit/guest-agent/files'] },
  service: { source: 'guest-agent/src/service', tests: ['unit/guest-agent/service'] },
};
