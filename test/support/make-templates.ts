// Lets a daemon create the shared template of a test run, and prints its data directory.
// usage: node test/support/make-templates.ts
import { rm } from 'node:fs/promises';
import { makeDirectories, spawnDaemon } from './daemon.ts';

const directories = await makeDirectories({ templates: 'own' });
const daemon = await spawnDaemon(directories);
await daemon.api.create();
if ((await daemon.end()) !== 0)
  throw new Error(`the daemon failed:\n${JSON.stringify(daemon.log.slice(-5))}`);
await rm(directories.runDir, { recursive: true, force: true });
process.stdout.write(directories.dataDir);
