// The modules that `make mutation` mutates, and the tests without guests that cover each.
import { globSync } from 'node:fs';

/**
 * `tests` are folders, files and patterns of files. `alone` lists those that need a fresh process.
 */
type MutationModule = {
  readonly source: string;
  readonly tests: readonly string[];
  readonly alone?: readonly string[];
};

export function testFilesOf({ tests, alone = [] }: MutationModule): string[] {
  const files = tests.flatMap((place) =>
    globSync(place.endsWith('.test.ts') ? place : `${place}/**/*.test.ts`, { cwd: 'test' }).sort(),
  );
  return files.filter((file) => !alone.includes(file));
}

export const MODULES: Readonly<Record<string, MutationModule>> = {
  sandboxes: { source: 'host-agent/src/sandboxes', tests: ['unit/host-agent/sandboxes'] },
  // Without `contract`: its processes would multiply the duration of a run, and its tests aim at other faults than
  // changed conditions.
  engines: {
    source: 'host-agent/src/engines',
    tests: ['unit/host-agent/engines'],
    alone: ['unit/host-agent/engines/vmm-process.test.ts'],
  },
  guest: { source: 'host-agent/src/guest', tests: ['unit/host-agent/guest'] },
  images: { source: 'host-agent/src/images', tests: ['unit/host-agent/images'] },
  // Without tests of the client and the command, which start programs, cover this whole module, and check other
  // results.
  http: { source: 'host-agent/src/http', tests: ['unit/host-agent/http', 'http/*.test.ts'] },
  keys: {
    source: 'host-agent/src/keys',
    tests: ['unit/host-agent/keys', 'http/limits.test.ts', 'http/keys.test.ts'],
  },
  audit: { source: 'host-agent/src/audit', tests: ['unit/host-agent/audit', 'http/audit.test.ts'] },
  channel: { source: 'proto/src/channel', tests: ['unit/proto/channel'] },
  exec: { source: 'guest-agent/src/exec', tests: ['unit/guest-agent/exec'] },
  files: { source: 'guest-agent/src/files', tests: ['unit/guest-agent/files'] },
  service: { source: 'guest-agent/src/service', tests: ['unit/guest-agent/service'] },
};
