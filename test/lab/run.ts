// Runs tests where KVM works: in an emulated Debian host, whatever this machine can.
// usage: node test/lab/run.ts [--engine name] [--program path] [--only part-of-a-name] [--machine-program qemu]
//   [-- bash command]
import { access, constants, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { createWritableLayer, resolveKernel } from '@sandboxd/rootfs-builder';
import { ProgressLine } from '../../host-agent/src/commands/progress.ts';
import { type Job, makeDataDisk, makeJobDisk, readVersions } from './disks.ts';
import { ensureLabImage } from './image.ts';
import { readMachineVersion, runMachine } from './machine.ts';

const CPUS = 1;
const MEMORY_MIB = 6144;
/** Everything in the lab takes about this much longer than on the machine itself. */
const TIME_SCALE = 8;
const LAYER_BYTES = 4 * 2 ** 30;
const EXIT_NO_STATUS = 3;
const CONSOLE_LINES = 40;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    engine: { type: 'string', default: 'qemu' },
    program: { type: 'string' },
    only: { type: 'string', default: '' },
    'machine-program': { type: 'string', default: process.env.LAB_QEMU || 'qemu-system-x86_64' },
    'data-dir': { type: 'string', default: resolve(import.meta.dirname, '../../.data') },
  },
});
const dataDir = resolve(values['data-dir']);
const labDir = join(dataDir, 'lab');
const program = values.program === undefined ? undefined : resolve(values.program);
if (program !== undefined) await access(program, constants.X_OK);

const stopping = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stopping.abort());

await mkdir(labDir, { recursive: true });
const dir = await mkdtemp(join(labDir, 'run-'));
try {
  process.exitCode = await runLab(dir);
} finally {
  await rm(dir, { recursive: true, force: true });
}

async function runLab(dir: string): Promise<number> {
  const startedAt = performance.now();
  const image = await ensureLabImage(dataDir, labDir, new ProgressLine().show);
  const kernel = await resolveKernel(dataDir, {});
  const [layer, job, data] = [join(dir, 'layer'), join(dir, 'job'), join(dir, 'data')];
  await createWritableLayer(labDir, layer, LAYER_BYTES);
  await makeJobDisk(job, describeJob(), dataDir);
  await makeDataDisk(data, dataDir);
  const machineVersion = await readMachineVersion(values['machine-program']);
  // Making the image takes no notice of it.
  stopping.signal.throwIfAborted();
  console.log(`lab: emulated by ${machineVersion}`);
  console.log(`lab: ${await readVersions(image.packages)}, guest kernel ${kernel.version}`);
  const { status, end } = await runMachine({
    dir,
    program: values['machine-program'],
    kernelPath: kernel.vmlinuxPath,
    initramfsPath: kernel.initramfsPath,
    disks: [
      { path: image.imagePath, isReadOnly: true },
      { path: layer, isReadOnly: false },
      { path: job, isReadOnly: true },
      { path: data, isReadOnly: false },
    ],
    cpus: CPUS,
    memoryMib: MEMORY_MIB,
    onOutput: (chunk) => process.stdout.write(chunk),
    signal: stopping.signal,
  });
  if (status === undefined)
    console.log(`lab: its program ended by ${end}; the end of its console:\n${await readConsole(dir)}`);
  const minutes = ((performance.now() - startedAt) / 60_000).toFixed(1);
  console.log(
    `lab: ${status === undefined ? 'ENDED WITHOUT A STATUS' : `status ${status}`} (${minutes} min)`,
  );
  return status ?? EXIT_NO_STATUS;
}

async function readConsole(dir: string): Promise<string> {
  const text = await readFile(join(dir, 'console.log'), 'utf8').catch(() => '');
  return text.split('\n').slice(-CONSOLE_LINES).join('\n');
}

function describeJob(): Job {
  const variables = {
    SANDBOXD_TEST_ENGINE: values.engine,
    SANDBOXD_TEST_TIME_SCALE: String(TIME_SCALE),
  };
  const exports = Object.entries(variables).map(([name, value]) => `export ${name}=${quote(value)}`);
  const command =
    positionals.length > 0 ? positionals.join(' ') : `node scripts/test.ts vm --only ${quote(values.only)}`;
  return { command: [...exports, command, ''].join('\n'), program };
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
