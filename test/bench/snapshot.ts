// Creates from templates, snapshots and forks, against the engine without the daemon on the same snapshot.
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { connectHost } from '@sandboxd/proto';
import { copySparse } from '@sandboxd/rootfs-builder';
import { SocketLink } from '../../host-agent/src/lib/socket-link.ts';
import type { SandboxJson } from '../support/api.ts';
import type { Daemon } from '../support/daemon.ts';
import { readSaved, restoreBareGuest } from './bare.ts';
import { processesOf, smaps } from './processes.ts';
import { settle } from './settled.ts';
import { median, type Section, spread } from './stats.ts';

const MIB = 2 ** 20;

/** Milliseconds from copying the layer to the agent's hello. */
async function bareRestore(savedDir: string): Promise<number> {
  const manifest = await readSaved(savedDir);
  await using guest = await restoreBareGuest(savedDir, manifest);
  const { channel } = await connectHost(new SocketLink(await guest.openPort()), {
    incarnation: 'bench',
    needsResync: manifest.needsResync,
  });
  const ms = performance.now() - guest.startedAt;
  channel.close(new Error('measured'));
  return ms;
}

/** A guest's pause while the VMM writes everything, memory included. */
async function bareSave(savedDir: string): Promise<number> {
  const manifest = await readSaved(savedDir);
  await using guest = await restoreBareGuest(savedDir, manifest);
  const { channel } = await connectHost(new SocketLink(await guest.openPort()), {
    incarnation: 'bench',
    needsResync: manifest.needsResync,
  });
  const savedMs = await guest.save();
  const copiedAt = performance.now();
  await copySparse(join(guest.dir, 'layer'), join(guest.dir, 'layer2'));
  const ms = savedMs + performance.now() - copiedAt;
  channel.close(new Error('measured'));
  return ms;
}

export async function benchCreate(daemon: Daemon, rounds: number): Promise<Section> {
  const { api } = daemon;
  const dir = await settle(daemon);
  const bare: number[] = [];
  const create: number[] = [];
  const firstOutput: number[] = [];
  const cold: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const bareMs = await bareRestore(dir);
    const startedAt = performance.now();
    const { id } = await api.create();
    const createdMs = performance.now() - startedAt;
    const { stdout } = await api.exec(id, ['echo', 'hello']);
    const outputMs = performance.now() - startedAt;
    if (stdout !== 'hello\n') throw new Error('no output');
    await api.delete(id);
    const coldAt = performance.now();
    const booted = await api.create({ boot_args: 'bench=1' });
    const coldMs = performance.now() - coldAt;
    await api.delete(booted.id);
    if (round === 0) continue;
    bare.push(bareMs);
    create.push(createdMs);
    firstOutput.push(outputMs);
    cold.push(coldMs);
  }
  const ratio = (a: readonly number[], b: readonly number[]): string =>
    median(a.map((value, index) => value / (b[index] ?? Number.NaN))).toFixed(2);
  return {
    title: 'Create from a template',
    note: `${rounds} rounds after one warm-up, in turn. Bare restore: the writable layer copied and the VMM started by hand from the same template's files, until the agent's first answer. To reach: create at most 2 × the bare restore, and 12 × faster than a cold boot.`,
    head: ['', 'median (min–max)'],
    rows: [
      ['bare restore', spread(bare, 0, 'ms')],
      ['create over REST', spread(create, 0, 'ms')],
      ['create and first output of `echo`', spread(firstOutput, 0, 'ms')],
      ['cold create over REST', spread(cold, 0, 'ms')],
      ['**create ÷ bare restore**', `**${ratio(create, bare)}**`],
      ['**cold create ÷ create**', `**${ratio(cold, create)}**`],
    ],
  };
}

async function allocatedMib(paths: readonly string[]): Promise<number> {
  const sizes = await Promise.all(paths.map(async (path) => (await stat(path)).blocks * 512));
  return sizes.reduce((sum, size) => sum + size, 0) / MIB;
}

export async function benchFork(
  daemon: Daemon,
  counts: readonly number[],
  rounds: number,
): Promise<Section[]> {
  const { api } = daemon;
  const template = await settle(daemon);
  const source = await api.create();
  await api.sh(source.id, 'head -c 20000000 /dev/urandom > /dev/shm/fill');
  const snapshotMs: number[] = [];
  const pausedMs: number[] = [];
  const bareSaveMs: number[] = [];
  let snapshot = { id: '', dir: '' };
  for (let round = 0; round < rounds; round++) {
    if (snapshot.id !== '') await api.call('DELETE', `/snapshots/${snapshot.id}`);
    const startedAt = performance.now();
    snapshot = await api.call<{ id: string; dir: string }>('POST', `/sandboxes/${source.id}/snapshot`);
    snapshotMs.push(performance.now() - startedAt);
    pausedMs.push(Number(daemon.log.findLast(({ msg }) => msg === 'snapshot taken')?.pausedMs));
    bareSaveMs.push(await bareSave(template));
  }
  const bare: number[] = [];
  const perChild = new Map(counts.map((count) => [count, [] as number[]]));
  let pssMib: number[] = [];
  let layersMib: number[] = [];
  for (let round = 0; round < rounds; round++) {
    bare.push(await bareRestore(snapshot.dir));
    for (const count of counts) {
      if (count > 16 && round > 0) continue;
      const startedAt = performance.now();
      const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>(
        'POST',
        `/snapshots/${snapshot.id}/fork?count=${count}`,
      );
      perChild.get(count)?.push((performance.now() - startedAt) / count);
      if (count === Math.max(...counts.filter((n) => n <= 16))) {
        pssMib = await Promise.all(
          sandboxes.map(async ({ id }) => (await smaps((await processesOf(id))[0] ?? 0)).pssMib),
        );
        layersMib = await Promise.all(
          sandboxes.map(({ workdir }) => allocatedMib([join(workdir, 'layer.ext4')])),
        );
      }
      await Promise.all(sandboxes.map(({ id }) => api.delete(id)));
    }
  }
  await api.delete(source.id);
  await api.call('DELETE', `/snapshots/${snapshot.id}`);
  const bareMedian = median(bare);
  return [
    {
      title: 'Snapshot',
      note: `${rounds} rounds of a sandbox with 20 MB of its own in memory. Bare save: a guest of the same size that the VMM itself writes, memory and all, and whose layer is copied, while it is paused. To reach: the source is paused at most 1.2 × the bare save.`,
      head: ['', 'median (min–max)'],
      rows: [
        ['bare save', spread(bareSaveMs, 0, 'ms')],
        ['the source is paused', spread(pausedMs, 0, 'ms')],
        ['**pause ÷ bare save**', `**${(median(pausedMs) / median(bareSaveMs)).toFixed(2)}**`],
        ['snapshot over REST, flushed to disk and checksummed', spread(snapshotMs, 0, 'ms')],
      ],
    },
    {
      title: 'Fork',
      note: `Each count after a bare restore of the same snapshot, ${rounds} rounds (one for counts over 16). Per child: the whole request's time divided by the count; 4 children are started at a time on 2 cores. Memory and disk of the children of the largest count up to 16, right after they were made. To reach: at most 2 × the bare restore, flat from 1 to 64; at most 90 MiB of PSS and 2 MiB of disk per fork.`,
      head: ['', 'per child', '÷ bare restore'],
      rows: [
        ['bare restore', spread(bare, 0, 'ms'), '1'],
        ...counts.map((count) => {
          const values = perChild.get(count) ?? [];
          return [
            `fork × ${count}`,
            spread(values, 0, 'ms'),
            `**${(median(values) / bareMedian).toFixed(2)}**`,
          ];
        }),
        ['PSS of an idle fork, VMM included', spread(pssMib, 0, 'MiB'), ''],
        ['new disk of a fork', spread(layersMib, 2, 'MiB'), ''],
      ],
    },
  ];
}
