// Probes whether guests really run: boots a throw-away guest up to our own program, saves it, and restores it. Output
// of firmware or a kernel proves nothing: on some hosts these run and nothing else does.
import { randomBytes } from 'node:crypto';
import { copyFile, mkdir, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { toError } from '../lib/errors.ts';
import { tailFile } from '../lib/tail.ts';
import { deadline, poll } from '../lib/wait.ts';
import type { ColdBootOptions, EngineContext, RestoreOptions, Vm, VmPaths } from './engine.ts';

/** The minimum of a sandbox. */
const MEMORY_MIB = 128;
const DISK_BYTES = 2 ** 20;
/** Even emulated on a loaded host this takes some 10 s; a guest that takes this long is taken to hang. */
const TIMEOUT_MS = 300_000;
/** The guest has counted this far when it is saved, so it is not at its beginning. */
const SAVED_AT_COUNT = 3;
/** Two counts prove that time passes in the fork. */
const COPY_COUNTS = 2;
const POLL_MS = 10;
const CONSOLE_BYTES = 64 * 1024;

export type TrialOptions = {
  readonly context: EngineContext;
  readonly boot: (options: ColdBootOptions) => Promise<Vm>;
  readonly restore: (options: RestoreOptions) => Promise<Vm>;
  readonly consolePath: (paths: VmPaths) => string;
  /** Further measurements while the guest runs. */
  readonly learn?: (paths: VmPaths, limit: AbortSignal) => Promise<void>;
  readonly signal?: AbortSignal | undefined;
};

/** Undefined if guests run and can be forked, else the reason in one line. Rejects with the signal's reason only. */
export async function tryGuest(options: TrialOptions): Promise<string | undefined> {
  const { context, boot, restore, consolePath, learn, signal: outer } = options;
  outer?.throwIfAborted();
  const { kernelPath, initramfsPath, log, probeTimeoutMs: timeoutMs = TIMEOUT_MS } = context;
  const nonce = randomBytes(8).toString('hex');
  const root = join(context.scratchDir, nonce.slice(0, 8));
  const rootDisk = join(root, 'root');
  const paths = (name: string): VmPaths => ({ dir: join(root, name), socketDir: join(root, name) });
  const layerOf = ({ dir }: VmPaths) => join(dir, 'layer');
  let stage = 'start a guest';
  using limit = deadline(timeoutMs, () => new Error(`no sign of life within ${timeoutMs} ms`), outer);
  await using undo = new AsyncDisposableStack();
  const { signal } = limit;
  /** Options as for a sandbox, except for the contents of its disks. */
  const optionsOf = (own: VmPaths) => ({
    spec: {
      vcpus: 1,
      memoryMib: MEMORY_MIB,
      kernelPath,
      initramfsPath,
      bootArgs: `sandbox.probe=${nonce}`,
      disks: [
        { path: rootDisk, isReadOnly: true },
        { path: layerOf(own), isReadOnly: false },
      ],
    },
    paths: own,
    log,
    signal,
    isTrial: true,
  });
  const counts = (vm: Vm, own: VmPaths, enough: (seen: readonly number[]) => boolean) =>
    poll(
      async () => {
        const seen = readCounts(
          await tailFile(consolePath(own), Number.POSITIVE_INFINITY, CONSOLE_BYTES),
          nonce,
        );
        if (enough(seen)) return seen;
        if (vm.exit !== undefined) throw new Error(vm.exit.reason);
        return undefined;
      },
      POLL_MS,
      signal,
    );
  let running: { readonly vm: Vm; readonly own: VmPaths } | undefined;
  try {
    undo.defer(() => rm(root, { recursive: true, force: true }));
    const [source, saved, copy] = [paths('s'), paths('m').dir, paths('c')];
    for (const dir of [source.dir, saved, copy.dir]) await mkdir(dir, { recursive: true, mode: 0o700 });
    for (const path of [rootDisk, layerOf(source)]) {
      await writeFile(path, '', { mode: 0o600 });
      await truncate(path, DISK_BYTES);
    }
    const first = await boot({ ...optionsOf(source), memoryPath: join(saved, 'memory') });
    undo.defer(() => first.kill());
    running = { vm: first, own: source };
    stage = 'reach the first program of a guest';
    const before = await counts(first, source, (seen) => (seen.at(-1) ?? 0) >= SAVED_AT_COUNT);
    await learn?.(source, signal);
    stage = 'save a guest';
    const files = await first.save({
      dir: saved,
      memoryBytes: MEMORY_MIB * 2 ** 20,
      whilePaused: () => copyFile(layerOf(source), layerOf(copy)),
      staysPaused: true,
    });
    await first.kill();
    stage = 'restore a saved guest';
    const second = await restore({ ...optionsOf(copy), saved: files });
    undo.defer(() => second.kill());
    running = { vm: second, own: copy };
    stage = 'have a restored guest go on';
    const after = await counts(second, copy, (seen) => seen.length >= COPY_COUNTS);
    const [from, to] = [before.at(-1) ?? 0, after[0] ?? 0];
    return to > from ? undefined : `cannot ${stage}: it began again`;
  } catch (error) {
    const [cause = ''] = toError(error).message.split('\n', 1);
    if (outer?.aborted !== true)
      log.info({ stage, err: error, tail: await running?.vm.diagnose() }, 'a probe guest failed');
    outer?.throwIfAborted();
    return `cannot ${stage}: ${cause}`;
  }
}

/** The guest's counts, in the order of its console. Lines of other programs do not count. */
export function readCounts(console: string, nonce: string): number[] {
  const line = new RegExp(`^sandbox-probe: ${hashText(nonce)} (\\d+)\\.$`, 'gm');
  return [...console.matchAll(line)].map(([, count]) => Number(count));
}

/** 64-bit FNV-1a, as in the guest's program: the kernel prints the nonce itself with its command line. */
export function hashText(text: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(text)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return hash.toString(16).padStart(16, '0');
}
