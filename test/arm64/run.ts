// `make test-arm64`: the daemon on arm64, in an emulated Debian host, with guests that this host emulates in turn.
// usage: node test/arm64/run.ts [--data-dir path] [--script path | --kernel-only]
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { createWritableLayer } from '@sandboxd/rootfs-builder';
import { ProgressLine } from '../../host-agent/src/commands/progress.ts';
import { BOARDS } from '../../host-agent/src/engines/qemu/board.ts';
import { type Board, runMachine } from '../lab/machine.ts';
import { ensureArm64Kernel, ensureHostImage, makeDataDisk, makeJobDisk } from './image.ts';

const { program, machine, emulatedCpu } = BOARDS.arm64;
const BOARD: Board = { machine, cpu: emulatedCpu, kernelArgs: ['console=ttyAMA0'] };
const CPUS = 2;
const MEMORY_MIB = 3072;
const LAYER_BYTES = 4 * 2 ** 30;
const DATA_KIB = 8 * 2 ** 20;
const EXIT_NO_STATUS = 3;
const CONSOLE_LINES = 40;

const { values } = parseArgs({
  options: {
    'data-dir': { type: 'string', default: resolve(import.meta.dirname, '../../.data') },
    /** Prepare the kernel, and run nothing. */
    'kernel-only': { type: 'boolean', default: false },
    /** A bash script, which runs in a directory with dist. */
    script: { type: 'string', default: join(import.meta.dirname, 'first-steps.sh') },
  },
});
const labDir = join(resolve(values['data-dir']), 'lab');
await mkdir(labDir, { recursive: true });
const dir = await mkdtemp(join(labDir, 'arm64-run-'));
const stopping = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stopping.abort());
try {
  process.exitCode = await run();
} finally {
  await rm(dir, { recursive: true, force: true });
}

async function run(): Promise<number> {
  const startedAt = performance.now();
  const progress = new ProgressLine().show;
  const ownDir = join(labDir, 'arm64');
  const kernel = await ensureArm64Kernel(ownDir, progress);
  if (values['kernel-only']) return 0;
  const root = await ensureHostImage(kernel, join(ownDir, 'images'), progress);
  const [layer, job, data] = [join(dir, 'layer'), join(dir, 'job'), join(dir, 'data')];
  await createWritableLayer(labDir, layer, LAYER_BYTES);
  await makeJobDisk(job, resolve(values.script));
  await makeDataDisk(data, ownDir, DATA_KIB);
  stopping.signal.throwIfAborted();
  const { status, end } = await runMachine({
    ...{ dir, program, board: BOARD, cpus: CPUS, memoryMib: MEMORY_MIB },
    ...{ kernelPath: kernel.vmlinuxPath, initramfsPath: kernel.initramfsPath },
    disks: [
      { path: root, isReadOnly: true },
      { path: layer, isReadOnly: false },
      { path: job, isReadOnly: true },
      { path: data, isReadOnly: false },
    ],
    onOutput: (chunk) => process.stdout.write(chunk),
    signal: stopping.signal,
  });
  if (status === undefined) {
    const console_ = await readFile(join(dir, 'console.log'), 'utf8').catch(() => '');
    console.log(`arm64: its program ended by ${end}; the end of its console:`);
    console.log(console_.split('\n').slice(-CONSOLE_LINES).join('\n'));
  }
  const minutes = ((performance.now() - startedAt) / 60_000).toFixed(1);
  console.log(
    `arm64: ${status === undefined ? 'ENDED WITHOUT A STATUS' : `status ${status}`} (${minutes} min)`,
  );
  return status ?? EXIT_NO_STATUS;
}
