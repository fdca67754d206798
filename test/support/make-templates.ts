// Lets a daemon create the shared templates of a test run, and prints its data directory.
// usage: node test/support/make-templates.ts
import { rm } from 'node:fs/promises';
import { makeDirectories, spawnDaemon } from './daemon.ts';
import { until } from './until.ts';

const directories = await makeDirectories({ templates: 'own' });
const daemon = await spawnDaemon(directories);
await daemon.api.create();
// An engine that cannot have a generic one makes no other.
const isGeneric = () => daemon.log.some(({ msg, rootfs }) => msg === 'template made' && rootfs === 'agent');
await until(isGeneric, 'the generic template', 120_000).catch(() => undefined);
if ((await daemon.end()) !== 0)
  throw new Error(`the daemon failed:\n${JSON.stringify(daemon.log.slice(-5))}`);
await rm(directories.runDir, { recursive: true, force: true });
process.stdout.write(directories.dataDir);
