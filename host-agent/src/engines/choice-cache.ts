// Caches which engine works on this host, for a fast daemon start: one file per combination of machine, kernel and
// programs.
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { cpus, release } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { readBootId } from '../lib/proc.ts';
import type { Engine } from './engine.ts';
import { type SelectedEngine, WORKS } from './select.ts';

const FORMAT = 1;
/** A failed engine may work later although nothing visible changed, so such an entry expires. */
const WITH_FAILURES_MS = 3_600_000;
/** Entries of other machines, kernels or programs are removed after this time. */
const KEEP_MS = 30 * 86_400_000;

const entrySchema = z.object({
  formatVersion: z.literal(FORMAT),
  savedAtMs: z.number(),
  name: z.string(),
  accelerator: z.string(),
  probe: z.object({
    isUsable: z.literal(true),
    version: z.string(),
    detail: z.string(),
    memo: z.string().optional(),
  }),
  tried: z.array(
    z.object({ name: z.string(), accelerator: z.string(), verdict: z.string(), ms: z.number() }),
  ),
});

export type Circumstances = {
  readonly engines: readonly Engine[];
  readonly kernel: { readonly vmlinuxPath: string; readonly initramfsPath: string; readonly digest: string };
};

export class ChoiceCache {
  readonly #dir: string;
  readonly #path: string;

  private constructor(dir: string, key: string) {
    this.#dir = dir;
    this.#path = join(dir, `${key}.json`);
  }

  static async open(dir: string, circumstances: Circumstances): Promise<ChoiceCache> {
    return new ChoiceCache(dir, await readKey(circumstances));
  }

  /** The cached choice for the current circumstances; undefined if there is none or it has expired. */
  async find(engines: readonly Engine[]): Promise<SelectedEngine | undefined> {
    try {
      const entry = entrySchema.parse(JSON.parse(await readFile(this.#path, 'utf8')));
      const { name, accelerator, probe, tried, savedAtMs } = entry;
      const ageMs = Date.now() - savedAtMs;
      if (ageMs < 0 || (hasFailures(tried, name, accelerator) && ageMs > WITH_FAILURES_MS)) return undefined;
      const engine = engines.find((each) => each.name === name && each.accelerator === accelerator);
      if (engine === undefined) return undefined;
      const { memo, ...rest } = probe;
      const usable = memo === undefined ? rest : { ...rest, memo };
      engine.recall(usable);
      return { engine, probe: usable, tried };
    } catch {
      // No entry yet, or one of another version.
      return undefined;
    }
  }

  async put({ engine, probe, tried }: SelectedEngine): Promise<void> {
    const { name, accelerator } = engine;
    const entry = { formatVersion: FORMAT, savedAtMs: Date.now(), name, accelerator, probe, tried };
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    await this.#sweep();
    // Several daemons may share the directory.
    const temporary = `${this.#path}.${process.pid}.new`;
    await writeFile(temporary, `${JSON.stringify(entry, null, 2)}\n`, { mode: 0o600 });
    await rename(temporary, this.#path);
  }

  async drop(): Promise<void> {
    await rm(this.#path, { force: true });
  }

  async #sweep(): Promise<void> {
    for (const name of await readdir(this.#dir)) {
      const path = join(this.#dir, name);
      const file = await stat(path).catch(() => undefined);
      if (file !== undefined && Date.now() - file.mtimeMs > KEEP_MS) await rm(path, { force: true });
    }
  }
}

/** Whether an engine with higher priority than the chosen one failed. */
function hasFailures(tried: SelectedEngine['tried'], name: string, accelerator: string): boolean {
  const chosen = tried.findIndex((one) => one.name === name && one.accelerator === accelerator);
  return tried.slice(0, chosen).some(({ verdict }) => verdict !== WORKS);
}

async function readKey({ engines, kernel }: Circumstances): Promise<string> {
  const files = await Promise.all([kernel.vmlinuxPath, kernel.initramfsPath].map((path) => stat(path)));
  const facts = {
    machine: await readMachine(),
    kernel: [kernel.digest, ...files.map(({ size, mtimeMs }) => [size, mtimeMs])],
    engines: await Promise.all(
      engines.map(async (engine) => [engine.name, engine.accelerator, await engine.fingerprint()]),
    ),
  };
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16);
}

/** Changes with the processor, microcode or kernel, and with a reboot. */
async function readMachine(): Promise<readonly unknown[]> {
  const machineId = await readFile('/etc/machine-id', 'latin1').catch(() => '');
  const cpu = await readFile('/proc/cpuinfo', 'latin1').catch(() => '');
  return [machineId.trim(), release(), readBootId(), cpus().length, lastingFacts(cpu)];
}

/** Lines on the first processor of /proc/cpuinfo that do not vary over time, unlike its clock rate. */
export function lastingFacts(cpuinfo: string): string[] {
  const [first = ''] = cpuinfo.split('\n\n', 1);
  return first
    .split('\n')
    .filter((line) => /^(vendor_id|cpu family|model|stepping|microcode|flags)\b/.test(line));
}
