// Published ports whose holder ends while their sandbox sleeps.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { parseIpv4Range } from '../../../../host-agent/src/lib/ipv4.ts';
import { controlOf } from '../../../../host-agent/src/network/held-process.ts';
import { Published } from '../../../../host-agent/src/network/published.ts';
import { type NetworkSlot, Subnet } from '../../../../host-agent/src/network/subnet.ts';

t.test('when it wakes another one holds them, and the ports lead to the guest again', async (t) => {
  const dir = await mkdtemp('/tmp/lost-holder-');
  t.teardown(() => rm(dir, { recursive: true }));
  const program = join(dir, 'holder');
  await writeFile(program, `#!/bin/sh\necho ready\nexec sleep 20\n`, { mode: 0o755 });
  const commands: string[] = [];
  const nothing = async (): Promise<void> => undefined;
  const published = new Published({
    program,
    runDir: dir,
    users: { take: async () => 65_000, group: async () => undefined, handOver: nothing, giveBack: nothing },
    change: async (_, command) => void commands.push(command),
    cut: nothing,
  });
  const range = parseIpv4Range('10.99.0.0/16');
  if (range === undefined) throw new Error('no range');
  const subnet = new Subnet(range);
  const slot = { namespace: join(dir, 'net', 'l1'), guestIp: '10.99.0.2' } as NetworkSlot;
  t.teardown(() => published.remove(subnet, slot));
  await published.add(subnet, slot, [{ hostPort: 18_080, guestPort: 80 }], false);
  const path = controlOf(join(dir, 'ports', 'l1'));
  const server = createServer((socket) => socket.on('data', (letters) => socket.write(letters)));
  const sockets = new Set<{ destroy(): void }>();
  server.on('connection', (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  await published.setMode(subnet, slot, 'hold', () => undefined);
  for (const socket of sockets) socket.destroy();
  server.close();
  await rm(path, { force: true });
  commands.length = 0;
  await published.setMode(subnet, slot, 'open');
  t.match(commands.join(), /add element .*18080/);
});
