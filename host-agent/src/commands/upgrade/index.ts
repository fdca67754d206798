// `sandboxd upgrade --check`: what this build would make of a data directory of another one. It changes nothing.

import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UsageError } from '@sandboxd/api/command-line';
import { KERNEL_FORMAT, ROOTFS_FORMAT } from '@sandboxd/rootfs-builder';
import { ConfigError } from '../../config/index.ts';
import { toError } from '../../lib/errors.ts';
import { worstOf } from '../../lib/findings.ts';
import { VERSION } from '../../lib/version.ts';
import { SAVED_FORMAT } from '../../sandboxes/saved/manifest.ts';
import { PAUSED_FORMAT } from '../../sandboxes/saved/paused-manifest.ts';
import { SCHEMA_VERSION, Store } from '../../store/store.ts';
import type { Command } from '../command.ts';
import { type Finding, fault, type Group, ok, realHost, warning } from '../doctor/host.ts';
import { examine, type Report, renderGroup } from '../doctor/index.ts';
import { loadSharedConfig, SHARED_FLAGS } from '../shared-config.ts';

const EXIT = { ok: 0, warning: 1, fault: 2 } as const;

export const upgrade: Command = {
  name: 'upgrade',
  operands: '',
  summary:
    'with --check, and of the new version: say what it would do with the data directory; exits with 0 when nothing is needed, 1 with warnings, 2 when it would not start',
  flags: {
    ...SHARED_FLAGS,
    check: { type: 'boolean', help: 'check only; there is nothing else, as apt installs packages' },
    json: { type: 'boolean', help: 'print the report as JSON' },
  },
  run: async (input, signal) => {
    if (!input.isSet('check'))
      throw new UsageError('only `sandboxd upgrade --check` exists: a package is installed by apt');
    const findings = await read();
    const report: Report = [{ group: `data for sandboxd ${VERSION}`, findings }];
    if (input.isSet('json'))
      process.stdout.write(
        `${JSON.stringify({ version: VERSION, worst: worstOf(report), findings }, null, 2)}\n`,
      );
    else process.stdout.write(renderGroup(report[0]?.group ?? '', findings));
    process.exitCode = EXIT[worstOf(report)];

    async function read() {
      try {
        return await examine(data, realHost(loadSharedConfig(input)), signal);
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        // The new version may not know a setting of the old one.
        return error.problems.map((problem) =>
          fault('settings', problem, 'change the settings before the upgrade, or the daemon does not start'),
        );
      }
    }
  },
};

// What of a data directory this build can use as it is, makes again, or refuses.

const MAX_NAMED = 5;
const NEWER = 'a newer version has written it: install that one, or restore a back-up from before it';

export const data: Group = {
  name: 'data',
  check: async ({ config: { dataDir } }) => {
    if (!existsSync(dataDir))
      return [ok('data directory', `${dataDir} is not there yet: a first installation`)];
    const engine = await readChosenEngine(dataDir);
    return [
      await checkRegistry(dataDir),
      await checkKernel(dataDir),
      await checkProfiles(dataDir),
      await checkSaved(dataDir, 'snapshots', SAVED_FORMAT, engine),
      await checkSaved(dataDir, 'sandboxes', PAUSED_FORMAT, engine),
      await checkTemplates(dataDir),
    ];
  },
};

async function checkRegistry(dataDir: string): Promise<Finding> {
  const name = 'registry';
  const path = join(dataDir, 'state.lmdb');
  try {
    if (!existsSync(path)) return ok(name, 'there is none yet');
    const found = (await Store.inspect(path)) ?? SCHEMA_VERSION;
    if (found === SCHEMA_VERSION) return ok(name, `schema version ${found}, as this build`);
    const advice =
      found > SCHEMA_VERSION ? NEWER : 'a version that was never released has written it: move it away';
    return fault(name, `schema version ${found}; this build reads ${SCHEMA_VERSION}`, advice);
  } catch (error) {
    return fault(name, `${path}: ${toError(error).message}`, 'restore it from a back-up');
  }
}

async function checkKernel(dataDir: string): Promise<Finding> {
  const name = 'guest kernel';
  const dir = join(dataDir, 'kernels');
  const digest = await readWord(join(dir, 'current'));
  if (digest === undefined) return ok(name, 'none yet: that of the package is taken');
  const { formatVersion: format, version } = await readManifest(join(dir, digest.slice(0, 16)));
  const shown = typeof version === 'string' ? version : digest.slice(0, 16);
  if (format === KERNEL_FORMAT) return ok(name, `${shown}, as this build makes it`);
  return typeof format === 'number' && format < KERNEL_FORMAT
    ? warning(
        name,
        `${shown} is usable, but of an older format: guests lack modules`,
        'sandboxd profiles bake --refresh',
      )
    : fault(name, `${shown} has format ${format ?? 'unknown'}, this build knows ${KERNEL_FORMAT}`, NEWER);
}

async function checkProfiles(dataDir: string): Promise<Finding> {
  const dir = join(dataDir, 'profiles');
  const counts = new Counts();
  for (const name of await list(dir)) {
    const digest = await readWord(join(dir, name, 'current'));
    if (digest === undefined) continue;
    const { formatVersion } = await readManifest(join(dir, name, digest.slice(0, 16)));
    counts.add(name, formatVersion, ROOTFS_FORMAT, ROOTFS_FORMAT);
  }
  if (counts.total === 0) return ok('profiles', 'none yet');
  if (counts.unfit.length > 0)
    return warning(
      'profiles',
      `of a format that this build does not use: ${named(counts.unfit)}`,
      'sandboxd profiles bake each of them; running sandboxes and snapshots keep theirs',
    );
  return ok('profiles', `${counts.total}, as this build makes them`);
}

type Engine = { readonly name: string; readonly version: string };

/** Snapshots, or paused sandboxes. */
async function checkSaved(
  dataDir: string,
  kind: 'snapshots' | 'sandboxes',
  newest: number,
  engine: Engine | undefined,
): Promise<Finding> {
  const name = kind === 'snapshots' ? kind : 'paused sandboxes';
  const counts = new Counts();
  const others: string[] = [];
  for (const id of await list(join(dataDir, kind))) {
    const dir = join(dataDir, kind, id, kind === 'sandboxes' ? 'paused' : '');
    // A sandbox that is not paused has none.
    if (!existsSync(join(dir, 'manifest.json'))) continue;
    const { formatVersion, compatibility } = await readManifest(dir);
    counts.add(id, formatVersion, newest, 1);
    const needs = { ...(compatibility as Partial<Engine> & { engine?: string }) };
    if (engine !== undefined && (needs.engine !== engine.name || needs.version !== engine.version))
      others.push(id);
  }
  if (counts.total === 0) return ok(name, 'none');
  if (counts.unfit.length > 0) return fault(name, `this build cannot read ${named(counts.unfit)}`, NEWER);
  if (others.length > 0)
    return warning(
      name,
      `${others.length} of ${counts.total} need another engine than ${engine?.name} ${engine?.version}: ${named(others)}`,
      'they stay, and are usable when that engine is installed again; export what must live on by its disk alone',
    );
  return ok(
    name,
    `${counts.total}, all can be read${counts.older > 0 ? `, ${counts.older} of an older format` : ''}`,
  );
}

async function checkTemplates(dataDir: string): Promise<Finding> {
  const { length } = await list(join(dataDir, 'templates'));
  return ok(
    'templates',
    length === 0 ? 'none' : `${length}: those that do not fit are made again by themselves`,
  );
}

class Counts {
  total = 0;
  older = 0;
  readonly unfit: string[] = [];

  add(name: string, format: unknown, newest: number, oldest: number): void {
    this.total++;
    if (typeof format !== 'number' || format > newest || format < oldest) this.unfit.push(name);
    else if (format < newest) this.older++;
  }
}

/** The engine that a daemon chose here most recently; undefined if none did. */
async function readChosenEngine(dataDir: string): Promise<Engine | undefined> {
  const dir = join(dataDir, 'engines');
  let newest: { readonly at: number; readonly engine: Engine } | undefined;
  for (const file of await list(dir)) {
    const { savedAtMs: at, name, probe } = await readJson(join(dir, file));
    const version = (probe as { readonly version?: unknown } | undefined)?.version;
    if (typeof at !== 'number' || typeof name !== 'string' || typeof version !== 'string') continue;
    if (newest === undefined || at > newest.at) newest = { at, engine: { name, version } };
  }
  return newest?.engine;
}

type Json = Readonly<Record<string, unknown>>;

const readManifest = (dir: string): Promise<Json> => readJson(join(dir, 'manifest.json'));

/** Empty for what cannot be read: a manifest of another version need not be what this build takes for one. */
async function readJson(path: string): Promise<Json> {
  try {
    const value: unknown = JSON.parse(await readFile(path, 'utf8'));
    return typeof value === 'object' && value !== null ? (value as Json) : {};
  } catch {
    return {};
  }
}

async function readWord(path: string): Promise<string | undefined> {
  const text = await readFile(path, 'utf8').catch(() => undefined);
  return text?.trim() || undefined;
}

async function list(dir: string): Promise<string[]> {
  return (await readdir(dir).catch(() => [])).sort();
}

function named(names: readonly string[]): string {
  const rest = names.length - MAX_NAMED;
  return `${names.slice(0, MAX_NAMED).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}
