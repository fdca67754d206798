// Pauses and resumes of an idle guest, against a bare restore and a snapshot of the same guest in turn.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectHost } from '@sandboxd/proto';
import { resolveProfile } from '@sandboxd/rootfs-builder';
import { SocketLink } from '../../host-agent/src/lib/socket-link.ts';
import { saveGuest } from '../../host-agent/src/sandboxes/saved/save.ts';
import { BAKED_DATA_DIR } from '../support/daemon.ts';
import { openEngine, Sleeper } from '../support/sleeper.ts';
import { readSaved, restoreBareGuest } from './bare.ts';
import { median, type Section, spread } from './stats.ts';

const MIB = 2 ** 20;
const MEMORY_MIB = 512;
/** What the last request left to be done in the guest is over then. */
const IDLE_MS = 500;

/** What a user's snapshot does to the guest; returns its pause in ms. */
async function snapshot(sleeper: Sleeper, dir: string): Promise<number> {
  const { path: agentPath } = sleeper.spec.disks[2] ?? { path: '' };
  const { rootfsPath } = await resolveProfile(BAKED_DATA_DIR, 'base');
  const rootfs = {
    kind: 'profile',
    name: 'base',
    digest: '',
    rootfsPath,
    env: {},
    workdir: '/',
    agentPath,
  } as const;
  const options = {
    rootfs,
    vcpus: 1,
    memoryMib: MEMORY_MIB,
    diskBytes: 1024 * MIB,
    timeoutS: 0,
    bootArgs: '',
  };
  const { vm, guest, layerPath, engine } = sleeper;
  const manifest = { compatibility: engine.compatibility(), kernelDigest: '', options };
  const { pausedMs } = await saveGuest({ dir, vm, guest, layerPath, manifest });
  return pausedMs;
}

/** Milliseconds from copying the layer to the agent's hello. */
async function bareRestore(dir: string): Promise<number> {
  const manifest = await readSaved(dir);
  await using guest = await restoreBareGuest(dir, manifest);
  const { channel } = await connectHost(new SocketLink(await guest.openPort()), {
    incarnation: 'sleeper',
    needsResync: manifest.needsResync,
  });
  const ms = performance.now() - guest.startedAt;
  channel.close(new Error('measured'));
  return ms;
}

export async function benchPause(rounds: number): Promise<Section> {
  const engine = await openEngine(true);
  const sleeper = await Sleeper.boot(engine, { memoryMib: MEMORY_MIB });
  try {
    return await measure(sleeper, rounds);
  } finally {
    await sleeper.remove();
  }
}

async function measure(sleeper: Sleeper, rounds: number): Promise<Section> {
  const [bare, resume, snapshotPause, pause, whole, written]: number[][] = [[], [], [], [], [], []];
  const dir = join(sleeper.dir, 'snapshot');
  const first = await sleeper.pause();
  await sleeper.resume();
  for (let round = 0; round <= rounds; round++) {
    await sleeper.sh('true');
    await sleep(IDLE_MS);
    await rm(dir, { recursive: true, force: true });
    const snapshotMs = await snapshot(sleeper, dir);
    await sleep(IDLE_MS);
    const paused = await sleeper.pause();
    const bareMs = await bareRestore(dir);
    const resumeMs = await sleeper.resume();
    if (round === 0) continue;
    snapshotPause?.push(snapshotMs);
    pause?.push(paused.pausedMs);
    whole?.push(paused.totalMs);
    written?.push((paused.bytesWritten + paused.settledBytes) / MIB);
    bare?.push(bareMs);
    resume?.push(resumeMs);
  }
  const ratio = (a: readonly number[] = [], b: readonly number[] = []): string =>
    median(a.map((value, index) => value / (b[index] ?? Number.NaN))).toFixed(2);
  const firstMib = first.bytesWritten / MIB;
  const row = (title: string, values: readonly number[] = [], digits = 0, unit = 'ms') => [
    title,
    spread(values, digits, unit),
  ];
  return {
    title: 'Pause and resume',
    note: `${rounds} rounds after one warm-up, in turn: an idle guest of ${MEMORY_MIB} MiB runs one command; a snapshot is taken; it is paused; the snapshot is restored bare (the layer copied and the VMM started by hand, until the agent's first answer); it is resumed, until its agent's first answer. No REST. To reach: resume at most 1.3 × the bare restore, its standstill at most a snapshot's, bytes at most 10 % of the first pause.`,
    head: ['', 'median (min–max)'],
    rows: [
      row('bare restore', bare),
      row('resume', resume),
      ['**resume ÷ bare restore**', `**${ratio(resume, bare)}**`],
      row('standstill of a snapshot', snapshotPause),
      row('standstill of a pause, until all is written', pause),
      ['**pause ÷ snapshot**', `**${ratio(pause, snapshotPause)}**`],
      row('pause, until all is on disk and checksummed', whole),
      ['the first pause writes', `${firstMib.toFixed(1)} MiB`],
      row('a later one writes, log and memory file', written, 1, 'MiB'),
      ['**later ÷ first**', `**${(median(written ?? []) / firstMib).toFixed(3)}**`],
    ],
  };
}
