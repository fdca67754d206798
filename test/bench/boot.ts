// Cold boot: a create over REST, alternating with the same guest without the daemon.
import { connectHost, type HelloReply } from '@sandboxd/proto';
import { SocketLink } from '../../host-agent/src/lib/socket-link.ts';
import type { Daemon } from '../support/daemon.ts';
import { startBareGuest } from './bare.ts';
import { median, type Section, spread } from './stats.ts';

type Bare = { readonly totalMs: number; readonly hello: HelloReply };

async function bareBoot(): Promise<Bare> {
  await using guest = await startBareGuest();
  const { hello, channel } = await connectHost(new SocketLink(await guest.openPort()), {
    incarnation: 'bench',
    needsResync: false,
  });
  const totalMs = performance.now() - guest.startedAt;
  channel.close(new Error('measured'));
  return { totalMs, hello };
}

export async function benchBoot(daemon: Daemon, rounds: number): Promise<Section> {
  const bare: Bare[] = [];
  const createMs: number[] = [];
  const deleteMs: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const bareRun = await bareBoot();
    const startedAt = performance.now();
    // A boot argument forces a cold boot.
    const { id } = await daemon.api.create({ boot_args: 'bench=1' });
    const created = performance.now() - startedAt;
    const deleteAt = performance.now();
    await daemon.api.delete(id);
    if (round === 0) continue;
    bare.push(bareRun);
    createMs.push(created);
    deleteMs.push(performance.now() - deleteAt);
  }
  const totals = bare.map(({ totalMs }) => totalMs);
  const ratio = median(createMs.map((ms, index) => ms / (totals[index] ?? Number.NaN)));
  return {
    title: 'Cold boot',
    note: `${rounds} rounds after one warm-up, bare boot and create in turn. Bare: the VMM started with the same kernel, disks and devices, until its agent answers. Ratio: median of the rounds' ratios; to reach: at most 1.25.`,
    head: ['step', 'median (min–max)'],
    rows: [
      [
        'bare: kernel start → agent’s first line',
        spread(
          bare.map(({ hello }) => hello.agentStartUs / 1000),
          0,
          'ms',
        ),
      ],
      [
        'bare: agent’s first line → serving',
        spread(
          bare.map(({ hello }) => (hello.agentReadyUs - hello.agentStartUs) / 1000),
          0,
          'ms',
        ),
      ],
      ['bare: VMM started → agent answered', spread(totals, 0, 'ms')],
      ['create over REST', spread(createMs, 0, 'ms')],
      ['**create ÷ bare boot**', `**${ratio.toFixed(2)}**`],
      ['delete over REST', spread(deleteMs, 0, 'ms')],
    ],
  };
}
