// The environment of a run: what a reader must know to compare it with another.
import { existsSync } from 'node:fs';
import { readFile, statfs } from 'node:fs/promises';
import { arch, cpus, loadavg, release, totalmem } from 'node:os';
import { dirname } from 'node:path';
import type { Client } from '@sandboxd/client';
import { fileSystemName } from '../../lib/file-systems.ts';
import { VERSION } from '../../lib/version.ts';
import type { BenchResult } from './result.ts';

type Environment = BenchResult['environment'];

export function readLoad(): number {
  return Math.round((loadavg()[0] ?? 0) * 100) / 100;
}

/** Of this machine, and of the engine of the daemon. */
export async function readEnvironment(
  client: Client,
  dataDir: string,
  signal: AbortSignal,
): Promise<Omit<Environment, 'load_before' | 'load_after'>> {
  const { engine } = await client.profiles({ signal });
  const { accelerator } = { ...engine } as { readonly accelerator?: unknown };
  const all = cpus();
  return {
    cpu: all[0]?.model.trim() || 'unknown',
    cpus: Math.max(1, all.length),
    memory_bytes: totalmem(),
    architecture: arch(),
    kernel: release(),
    system: await readSystem(),
    file_system: await readFileSystem(dataDir),
    is_virtual_machine: /^flags\s*:.*\bhypervisor\b/m.test(await readText('/proc/cpuinfo')),
    engine: {
      name: engine?.name ?? 'unknown',
      version: engine?.version ?? 'unknown',
      accelerator: typeof accelerator === 'string' ? accelerator : 'unknown',
      is_jailed: engine?.jail?.enabled ?? false,
    },
  };
}

export async function readVersions(client: Client, signal: AbortSignal): Promise<BenchResult['versions']> {
  const { version } = await client.health({ signal });
  return {
    sandboxd: version ?? 'unknown',
    command: VERSION,
    interface: await client.interfaceVersion({ signal }),
  };
}

async function readSystem(): Promise<string> {
  return /^PRETTY_NAME="?([^"\n]*)/m.exec(await readText('/etc/os-release'))?.[1] ?? 'unknown';
}

async function readFileSystem(dataDir: string): Promise<string> {
  return fileSystemName((await statfs(nearest(dataDir))).type);
}

export async function readFreeBytes(dataDir: string): Promise<number> {
  const { bavail, bsize } = await statfs(nearest(dataDir));
  return bavail * bsize;
}

/** The directory, or its nearest parent that is there. */
function nearest(dir: string): string {
  return existsSync(dir) || dir === '/' ? dir : nearest(dirname(dir));
}

async function readText(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}
