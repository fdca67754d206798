// The result of `sandboxd bench`: its schema, which docs/results/schema.json publishes, and its statistics.

import { existsSync } from 'node:fs';
import { readFile, statfs } from 'node:fs/promises';
import { arch, cpus, loadavg, release, totalmem } from 'node:os';
import { dirname } from 'node:path';
import type { Client } from '@sandboxd/client';
import { z } from 'zod';
import { fileSystemName } from '../../lib/file-systems.ts';
import { VERSION } from '../../lib/version.ts';

export const FORMAT = 'sandboxd-bench/1';

const count = z.int().min(0);
const ms = z.number().min(0);
const word = z.string().max(500);

const failures = z.strictObject({
  count,
  codes: z.record(word, count).describe('failures by the code of the error'),
  example: word.optional().describe('message of the first one'),
});

const percentiles = z
  .strictObject({ min: ms, p25: ms, p50: ms, p75: ms, p95: ms, p99: ms, max: ms })
  .describe('milliseconds, by nearest rank: with fewer than 100 operations, p99 is the slowest');

const measured = z.strictObject({
  tier: word,
  concurrency: z.int().min(1).describe('operations that begin at once'),
  operations: count.describe('operations that succeeded'),
  failures,
  is_cut: z.boolean().describe('whether the time was up before all rounds'),
  ms: percentiles.optional().describe('of the operations that succeeded; absent if none did'),
});

const skipped = z.strictObject({
  tier: word,
  concurrency: z.int().min(1),
  not_measured: word.describe('why'),
});

const spread = z.strictObject({ min: count, p50: count, max: count });

export const benchResult = z
  .strictObject({
    format: z.literal(FORMAT),
    made_at: z.iso.datetime(),
    duration_s: z.number().min(0),
    note: word.optional().describe('what the operator says about the host'),
    versions: z.strictObject({ sandboxd: word, command: word, interface: word }),
    environment: z.strictObject({
      cpu: word,
      cpus: z.int().min(1),
      memory_bytes: count,
      architecture: word,
      kernel: word,
      system: word,
      file_system: word.describe('of the data directory'),
      is_virtual_machine: z.boolean().describe('whether the CPU reports a hypervisor'),
      load_before: z.number().min(0).describe('load average of the last minute'),
      load_after: z.number().min(0),
      engine: z.strictObject({
        name: word,
        version: word,
        accelerator: word.describe('kvm, or tcg for software emulation'),
        is_jailed: z.boolean(),
      }),
    }),
    settings: z.strictObject({
      profile: word,
      image: word.optional(),
      memory_mib: z.int().min(1),
      vcpus: z.int().min(1),
      concurrency: z.array(z.int().min(1)).min(1),
      rounds: z.int().min(1),
      time_s: z.int().min(1),
      beside_others: z.boolean().describe('whether other sandboxes were on the host'),
    }),
    tiers: z.array(z.union([measured, skipped])),
    idle_copies: z
      .union([
        z.strictObject({
          copies: count,
          private_bytes: spread.describe('memory of the VMM that it does not share'),
          resident_bytes: spread.describe('memory of the VMM, with pages that all copies share'),
          layer_bytes: spread.describe('disk space of the writable layer'),
        }),
        z.strictObject({ not_measured: word }),
      ])
      .describe('each copy of one snapshot, idle'),
    until_full: z
      .strictObject({
        sandboxes: count.describe('that ran at once'),
        ended_by: word.describe('code of the refusal, or limit: the most that the operator allowed'),
        message: word.optional(),
      })
      .optional(),
  })
  .describe('a result of sandboxd bench');

export type BenchResult = z.output<typeof benchResult>;
export type Failures = z.output<typeof failures>;
export type Cell = BenchResult['tiers'][number];
export type Measured = z.output<typeof measured>;
export type Spread = z.output<typeof spread>;

/** Nearest rank. NaN of nothing. */
export function percentile(sorted: readonly number[], percent: number): number {
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN;
}

export function toPercentiles(values: readonly number[]): Measured['ms'] {
  if (values.length === 0) return undefined;
  const sorted = values.toSorted((a, b) => a - b);
  const at = (percent: number): number => Math.round(percentile(sorted, percent) * 100) / 100;
  return { min: at(0), p25: at(25), p50: at(50), p75: at(75), p95: at(95), p99: at(99), max: at(100) };
}

export function toSpread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  return { min: percentile(sorted, 0), p50: percentile(sorted, 50), max: percentile(sorted, 100) };
}

// The environment of a run: what a reader must know to compare it with another.

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
