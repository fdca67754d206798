// `make bench`: measures, prints the tables and writes docs/measurements/bench.md.
// usage: node test/bench/run.ts [--quick] [--only NAME] [--output file]: results of another engine, of a short run or
// of some parts are written only to an explicit --output.
import { writeFile } from 'node:fs/promises';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { TIME_SCALE } from '../support/time-scale.ts';
import { chooseBareEngine } from './bare.ts';
import { benchBoot } from './boot.ts';
import { benchExec } from './exec.ts';
import { benchFiles } from './files.ts';
import { benchImages } from './images.ts';
import { benchJail } from './jail.ts';
import { benchLatencies } from './latencies.ts';
import { benchLogs } from './logs.ts';
import { benchMemory } from './memory.ts';
import { benchNetwork, benchNetworkThroughput } from './network.ts';
import { benchPause } from './pause.ts';
import { RawChannel, RawHttpChannel } from './raw-channel.ts';
import { benchRestart } from './restart.ts';
import { benchRollback } from './rollback.ts';
import { benchSingleFiles } from './single-files.ts';
import { benchCreate, benchFork } from './snapshot.ts';
import { markdownTable, plainTable, type Section, wrap } from './stats.ts';
import { benchThroughput } from './throughput.ts';
import { benchTransports } from './transports.ts';
import { benchWake } from './wake.ts';

const OUTPUT = resolve(import.meta.dirname, '../../docs/measurements/bench.md');
const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    output: { type: 'string' },
    only: { type: 'string' },
  },
});
const isQuick = values.quick;
// The page shows the engine that every machine has.
const output =
  values.output ??
  (isQuick || values.only !== undefined || process.env.SANDBOXD_TEST_ENGINE !== undefined
    ? undefined
    : OUTPUT);

const sections: Section[] = [];
async function measure(name: string, work: () => Promise<Section | Section[]>): Promise<void> {
  if (values.only !== undefined && !name.startsWith(values.only)) return;
  process.stderr.write(`${name} …\n`);
  for (const section of [await work()].flat()) {
    sections.push(section);
    console.log(`\n${section.title}\n${plainTable(section.head, section.rows)}`);
  }
}

await measure('at a glance', () => benchLatencies(isQuick ? 2 : 5));
const directories = await makeDirectories();
const daemon = await spawnDaemon(directories, { flags: ['--log-level', 'debug'] });
const bare = await chooseBareEngine(daemon.log);
try {
  await measure('cold boot', () => benchBoot(daemon, isQuick ? 2 : 5));
  await measure('create from a template', () => benchCreate(daemon, isQuick ? 2 : 5));
  await measure('snapshot and fork', () =>
    benchFork(daemon, isQuick ? [1, 4] : [1, 16, 64], isQuick ? 2 : 3),
  );
  await measure('pause and resume', () => benchPause(isQuick ? 4 : 20));
  await measure('wake', () => benchWake(daemon, isQuick ? 4 : 20, isQuick ? 6 : 20));
  await measure('rollback', () => benchRollback(daemon, isQuick ? 2 : 10));
  await measure('images', () => benchImages(daemon, isQuick ? 2 : 3, isQuick ? 4 : 11));
  await measure('jail', () => benchJail(isQuick ? 20 : 200));
  await measure('network', () => benchNetwork(daemon, isQuick ? 4 : 16, isQuick ? 3 : 5));
  await measure('network throughput', () => benchNetworkThroughput(isQuick ? 3 : 9));
  const { id } = await daemon.api.create();
  await measure('exec', () => benchExec(daemon, id, isQuick ? 30 : 100));
  await measure('single files', () => benchSingleFiles(daemon, id, isQuick ? 30 : 200));
  await measure('transports', () => benchTransports(daemon, id, isQuick ? 10 : 30));
  {
    await using raw = await RawChannel.open();
    await using stream = await RawChannel.open({ isStream: true });
    await measure('throughput', () => benchThroughput(daemon, id, { raw, stream }, isQuick ? 2 : 3));
    await measure('files', async () => {
      await using http = await RawHttpChannel.open();
      return await benchFiles(
        daemon,
        id,
        { raw, stream, http },
        isQuick ? 1 : 9,
        Math.ceil(128 / TIME_SCALE),
      );
    });
  }
  await measure('logs', () => benchLogs(daemon, id, isQuick ? 3 : 5));
  await measure('memory', () => benchMemory(daemon, id));
  await daemon.api.delete(id);
} finally {
  await daemon.end();
  await removeDirectories(directories);
}
await measure('restart', () =>
  benchRestart(
    isQuick
      ? { rounds: 2, adopted: 4, alive: 8, seconds: 1 }
      : { rounds: 5, adopted: 20, alive: 50, seconds: 5 },
  ),
);

const engine = String(daemon.log.find(({ msg }) => msg === 'engine chosen')?.reason ?? '').split('\n')[0];
const load = loadavg()
  .map((value) => value.toFixed(1))
  .join(', ');
const intro = `\`make bench\`${isQuick ? ' in its short form (--quick)' : ''} measures and writes this page. Everything is compared with a baseline of the same run: the VMM started bare with the same kernel, disks and devices, and a bare program at the guest's end of the same channel. The machine is shared and noisy, so medians and ratios count, and single times do not. Builds are compared in turn by \`test/bench/pair.ts\`: [comparisons.md](comparisons.md).`;
const facts = [
  `Date: ${new Date().toISOString().slice(0, 10)}`,
  `Machine: ${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, kernel ${release().split('-')[0]}`,
  `Load when it ended (over 1, 5 and 15 minutes): ${load}`,
  bare.version,
  `Engine: ${engine}`,
];
const text = `# Benchmark run

${wrap(intro)}

${facts.map((fact) => wrap(`- ${fact}`, '  ')).join('\n')}

${sections.map(({ title, note, head, rows }) => `## ${title}\n\n${wrap(note)}\n\n${markdownTable(head, rows)}`).join('\n\n')}
`;
if (output !== undefined) {
  await writeFile(output, text);
  console.log(`\nwritten: ${output}`);
}
process.exit(0);
