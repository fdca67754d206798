// Memory use of the agent in its guest, and of the daemon and a VMM on the host.
import type { Daemon } from '../support/daemon.ts';
import { type Memory, parseSmaps, processesOf, smaps } from './processes.ts';
import type { Section } from './stats.ts';

function row(name: string, { rssMib, pssMib, anonymousMib }: Memory): string[] {
  return [name, ...[rssMib, pssMib, anonymousMib].map((mib) => `${mib.toFixed(1)} MiB`)];
}

export async function benchMemory(daemon: Daemon, id: string): Promise<Section> {
  const agent = parseSmaps(await daemon.api.sh(id, 'cat /proc/1/smaps_rollup'));
  const [vmm = 0] = await processesOf(id);
  return {
    title: 'Memory',
    note: 'After the measurements above, one sandbox of 512 MiB alive. The agent within its guest; to reach: at most 60 MiB.',
    head: ['', 'RSS', 'PSS', 'anonymous'],
    rows: [
      row('guest agent', agent),
      row('daemon', await smaps(daemon.pid)),
      row('VMM with its guest', await smaps(vmm)),
    ],
  };
}
