// `sandboxd bench`: what this host gives, measured through the interface of its daemon.
import { randomBytes } from 'node:crypto';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { type Input, UsageError } from '@sandboxd/api/command-line';
import type { Client } from '@sandboxd/client';
import { AppError, toError } from '../../lib/errors.ts';
import type { Command } from '../command.ts';
import { loadSharedConfig, SHARED_FLAGS } from '../shared-config.ts';
import { fillHost, Lab, measureIdleCopies } from './lab.ts';
import { measure } from './measure.ts';
import { type BenchOptions, parseOptions } from './options.ts';
import { renderComparison, renderPage } from './page.ts';
import {
  type BenchResult,
  benchResult,
  type Cell,
  FORMAT,
  readEnvironment,
  readFreeBytes,
  readLoad,
  readVersions,
} from './result.ts';
import { makeTiers } from './tiers.ts';

/** A result has some 10 KB. */
const MAX_RESULT_BYTES = 2 ** 20;
/** Of the time; the rest is for idle copies. */
const TIERS_SHARE = 0.85;

export const bench: Command = {
  name: 'bench',
  operands: '[a.json] [b.json]',
  summary:
    'measure this host through its daemon (SANDBOXD_HOST, SANDBOXD_API_KEY): creates, forks, resumes, commands, memory; leaves nothing',
  flags: {
    ...SHARED_FLAGS,
    json: { type: 'string', placeholder: 'file', help: 'write the result to this file' },
    page: {
      type: 'string',
      placeholder: 'file',
      help: 'write the page to this file; default: standard output',
    },
    compare: { type: 'boolean', help: 'measure nothing: compare two results' },
    concurrency: {
      type: 'string',
      placeholder: 'list',
      help: 'operations at once; default: 1,8,32,64',
    },
    rounds: { type: 'string', placeholder: 'number', help: 'rounds of each; default: 10' },
    time: { type: 'string', placeholder: 'seconds', help: 'longest run without its clean-up; default: 900' },
    tier: {
      type: 'string',
      multiple: true,
      placeholder: 'name',
      help: 'measure only this tier; default: all',
    },
    profile: { type: 'string', placeholder: 'name', help: 'profile of the sandboxes; default: the daemon’s' },
    image: { type: 'string', placeholder: 'image', help: 'measure creates from this image, too' },
    egress: {
      type: 'string',
      placeholder: 'url',
      help: 'measure requests of guests to this http address, too',
    },
    memory: { type: 'string', placeholder: 'MiB', help: 'memory of each sandbox; default: 512' },
    vcpus: { type: 'string', placeholder: 'number', help: 'virtual CPUs of each sandbox; default: 1' },
    'until-full': {
      type: 'string',
      placeholder: 'number',
      help: 'at the end, create sandboxes until the host refuses one, at most so many; default: do not',
    },
    'beside-others': { type: 'boolean', help: 'measure although there are other sandboxes on the host' },
    note: { type: 'string', placeholder: 'text', help: 'a remark about the host, for the result' },
  },
  run: async (input, signal) => {
    if (input.isSet('compare')) return compare(input.operands);
    if (input.operands.length > 0) throw new UsageError('results are named only with --compare');
    const options = parseOptions(input);
    assertLocal(process.env.SANDBOXD_HOST);
    // A file that cannot be written is found before the run, not after it.
    for (const flag of ['json', 'page']) {
      const path = input.text(flag);
      if (path !== undefined) await writeFile(path, '', { flag: 'a' });
    }
    const { dataDir } = loadSharedConfig(input);
    // Loaded here: the daemon itself, which is the same program, has no use for it.
    const { Client } = await import('@sandboxd/client');
    const result = await runBench(
      orUsageError(() => new Client()),
      { ...options, dataDir },
      signal,
    );
    await output(result, input);
  },
};

/** The client says what is wrong with an address or a key. */
function orUsageError<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw new UsageError(toError(error).message);
  }
}

/** The result describes this machine. UsageError for the daemon of another one. The client refuses what is not one. */
export function assertLocal(host: string | undefined): void {
  if (!host || !/^https?:/.test(host)) return;
  const name = URL.parse(host)?.hostname ?? '';
  if (name === 'localhost' || name === '[::1]' || /^127\.[\d.]+$/.test(name)) return;
  throw new UsageError(`run it on the host of the daemon, not ${host}: the result describes this machine`);
}

async function output(result: BenchResult, input: Input): Promise<void> {
  const [json, page] = [input.text('json'), input.text('page')];
  if (json !== undefined) await writeFile(json, `${JSON.stringify(result, null, 2)}\n`);
  if (page !== undefined) await writeFile(page, renderPage(result));
  else process.stdout.write(renderPage(result));
}

async function compare([a, b]: readonly string[]): Promise<void> {
  if (a === undefined || b === undefined) throw new UsageError('--compare needs two results: a.json b.json');
  process.stdout.write(renderComparison(await readResult(a), await readResult(b)));
}

export async function readResult(path: string): Promise<BenchResult> {
  const { size } = await stat(path);
  if (size > MAX_RESULT_BYTES) throw new UsageError(`${path} is too long for a result`);
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    throw new UsageError(`${path} is not JSON: ${toError(error).message}`);
  }
  const { success, data, error } = benchResult.safeParse(value);
  if (success) return data;
  const [issue] = error.issues;
  throw new UsageError(`${path} is not a result of ${FORMAT}: ${issue?.path.join('.')}: ${issue?.message}`);
}

export async function runBench(
  client: Client,
  options: BenchOptions & { readonly dataDir: string },
  signal: AbortSignal,
): Promise<BenchResult> {
  const { levels, rounds, timeMs, memoryMib, vcpus, image, egress, untilFull, note } = options;
  const isBesideOthers = await assertAlone(client, options.isBesideOthers, signal);
  const profile = options.profile ?? (await client.profiles({ signal })).default;
  if (profile === undefined) throw new AppError('invalid_argument', 'the daemon has no profile: bake one');
  const startedAt = performance.now();
  const [made_at, load_before] = [new Date().toISOString(), readLoad()];
  const [environment, versions] = await Promise.all([
    readEnvironment(client, options.dataDir, signal),
    readVersions(client, signal),
  ]);
  const lab = new Lab({ client, run: randomBytes(6).toString('hex'), profile, memoryMib, vcpus, timeMs });
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(timeMs)]);
  const plan = { levels, rounds, signal, onCell: report };
  const apiKey = process.env.SANDBOXD_API_KEY || undefined;
  const all = makeTiers(lab, { image, egress, apiKey, freeBytes: () => readFreeBytes(options.dataDir) });
  const tiers = all.filter(({ name }) => options.tiers.length === 0 || options.tiers.includes(name));
  try {
    const cells = await measure(tiers, { ...plan, timeMs: timeMs * TIERS_SHARE });
    const idle_copies = await measureIdleCopies(lab, deadline);
    signal.throwIfAborted();
    const full = untilFull === undefined ? undefined : await fillHost(lab, untilFull, deadline);
    signal.throwIfAborted();
    return {
      format: FORMAT,
      made_at,
      duration_s: Math.round((performance.now() - startedAt) / 100) / 10,
      ...(note !== undefined && { note }),
      versions,
      environment: { ...environment, load_before, load_after: readLoad() },
      settings: {
        profile,
        ...(image !== undefined && { image }),
        ...{ memory_mib: memoryMib, vcpus, concurrency: [...levels], rounds },
        ...{ time_s: Math.ceil(timeMs / 1000), beside_others: isBesideOthers },
      },
      tiers: cells,
      idle_copies,
      ...(full !== undefined && { until_full: full }),
    };
  } finally {
    const left = await lab.clear();
    if (left.length > 0)
      process.stderr.write(`sandboxd: not deleted: ${left.join(', ')}; the daemon deletes them in time\n`);
  }
}

/** Resolves with whether there are others. AppError, if that is not allowed or cannot be known. */
async function assertAlone(client: Client, isAllowed: boolean, signal: AbortSignal): Promise<boolean> {
  const { scoped } = await client.whoami({ signal });
  const others = await client.sandboxes.list({ limit: 1, signal });
  if (isAllowed) return scoped || others.length > 0;
  const advice = 'a benchmark would slow them down and measure them, too: stop them, or add --beside-others';
  if (others.length > 0) throw new AppError('conflict', `there are sandboxes on this host; ${advice}`);
  if (scoped) throw new AppError('conflict', `this key cannot see all sandboxes of the host; ${advice}`);
  return false;
}

function report(cell: Cell): void {
  const { tier, concurrency } = cell;
  const seen =
    'not_measured' in cell
      ? `not measured: ${cell.not_measured}`
      : `p50 ${cell.ms?.p50 ?? '–'} ms, ${cell.operations} operations, ${cell.failures.count} failures`;
  process.stderr.write(`${tier}, ${concurrency} at once: ${seen}\n`);
}
