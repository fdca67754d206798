// Lets daemons create the shared templates of a test run, and prints the data directory that has them.
// usage: node test/support/make-templates.ts
import './network/own-network.ts';
import { execFileSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { type Daemon, type Directories, makeDirectories, removeDirectories, spawnDaemon } from './daemon.ts';
import { linkTemplates } from './shared-templates.ts';
import { untilOwnTemplate, untilSettled } from './templates.ts';
import { TIME_SCALE } from './time-scale.ts';
import { until } from './until.ts';

/** What most tests create: the base profile in these sizes, and some with a network. */
const KINDS = [
  { memory_mib: 512 },
  { memory_mib: 256, networked: 'python-3.11' },
  { memory_mib: 128, networked: 'base' },
] as const;
/** On a busy machine, for templates that are made at idle priority. */
const LIMIT_MS = 240_000;
/** A template's guest reaches no host, and asks no name server. */
const NETWORK = { enabled: true, allowlist: ['host.test'] };
const FLAGS = ['--dns-upstream', '127.0.0.1'];

execFileSync('ip', ['link', 'set', 'lo', 'up']);
const results: PromiseSettledResult<Directories>[] = [];
// At once, unless the machine has one slow CPU.
const turns = TIME_SCALE > 1 ? KINDS.map((kind) => [kind]) : [KINDS];
for (const turn of turns) results.push(...(await Promise.allSettled(turn.map(make))));
const made = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
for (const result of results)
  if (result.status === 'rejected') console.error(`  templates that each daemon makes: ${result.reason}`);
const [all, ...others] = made;
if (all === undefined) throw new Error('there are no templates');
for (const each of others) {
  await linkTemplates(each.dataDir, all.dataDir);
  await removeDirectories(each);
}
await rm(all.runDir, { recursive: true, force: true });
process.stdout.write(all.dataDir);

async function make(kind: (typeof KINDS)[number]): Promise<Directories> {
  const directories = await makeDirectories({ templates: 'own' });
  const daemon = await spawnDaemon(directories, { flags: FLAGS });
  try {
    await makeWith(daemon, kind);
  } catch (error) {
    await daemon.end();
    await removeDirectories(directories);
    throw error;
  }
  if ((await daemon.end()) !== 0)
    throw new Error(`the daemon failed:\n${JSON.stringify(daemon.log.slice(-5))}`);
  return directories;
}

async function makeWith(
  daemon: Daemon,
  { memory_mib, networked }: { readonly memory_mib: number; readonly networked?: string },
): Promise<void> {
  await daemon.api.delete((await daemon.api.create({ memory_mib })).id);
  // An engine that cannot have a generic one makes no other.
  const isGeneric = () => daemon.log.some(({ msg, rootfs }) => msg === 'template made' && rootfs === 'agent');
  await until(isGeneric, 'the generic template', LIMIT_MS).catch(() => undefined);
  await untilOwnTemplate(daemon, { memory_mib });
  if (networked !== undefined)
    await untilOwnTemplate(daemon, { memory_mib, profile: networked, network: NETWORK });
  // Otherwise each daemon of the run would compute checksums.
  await untilSettled(daemon);
}
