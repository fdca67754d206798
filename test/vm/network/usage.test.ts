// What stats say of a real guest against what it did, in unit and size; and a sandbox whose only use is a connection to what it
// publishes.
import '../../support/network/own-network.ts';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startDaemon } from '../../support/daemon.ts';
import { openInternet } from '../../support/internet/index.ts';
import { scaled } from '../../support/time-scale.ts';
import { vmmOf } from '../../support/vmms.ts';

t.setTimeout(scaled(600_000));
const MIB = 2 ** 20;
const BURNT_US = 3_000_000;
const PORT = 8000;
const internet = await openInternet(t);
await internet.names.serve([`host-record=web.example,${internet.machines.web.address},60`]);
const { api } = await startDaemon(t, { flags: internet.daemonFlags });
const PROFILE = 'python-3.11';

/** Serves each connection 50 MiB, and then ends it. */
internet.machines.web.start('socat', `TCP4-LISTEN:${PORT},fork,reuseaddr`, 'SYSTEM:head -c 50M /dev/zero');
await internet.machines.web.listening('tcp', PORT);

t.test('one CPU, 200 MiB of memory, 100 MiB of disk, 50 MiB from the network', async (t) => {
  const made = await api.create({
    profile: PROFILE,
    memory_mib: 512,
    network: { enabled: true, allowlist: ['web.example'] },
  });
  const { id } = made;
  const read = () => api.ask('readStats', { params: { id } });
  const python = (script: string) => api.sh(id, `python3 - <<'END'\n${script}\nEND`);
  /** How many MiB more a counter is now. */
  const grown = (from: number, to: number) => (to - from) / MIB;
  const isAbout = (mib: number, wanted: number, atMost: number, what: string) =>
    t.ok(mib >= 0.97 * wanted && mib <= atMost, `${mib.toFixed(1)} MiB ${what}, for ${wanted}`);

  const idle = await read();
  await api.sh(id, 'nohup sh -c "while [ ! -e /root/end ]; do :; done" > /dev/null 2>&1 &');
  let busy = await read();
  // Until the host says that it has burnt that much: how long that takes is the host's affair.
  while (busy.cpu_us - idle.cpu_us < BURNT_US) {
    await sleep(100);
    busy = await read();
  }
  // Another program of the host reads it in whole seconds.
  const cpuS = Number(
    execFileSync('ps', ['-o', 'cputimes=', '-p', String(await vmmOf(made))], { encoding: 'utf8' }),
  );
  const after = await read();
  t.ok(
    cpuS >= Math.floor(busy.cpu_us / 1e6) - 1 && cpuS <= Math.ceil(after.cpu_us / 1e6) + 1,
    `${cpuS} s of CPU`,
  );
  const passedUs = (Date.parse(after.read_at) - Date.parse(idle.read_at)) * 1000;
  // Beside its one CPU a VMM has threads that do little.
  t.ok(
    after.cpu_us - idle.cpu_us < 1.5 * passedUs + 500_000,
    `${after.cpu_us - idle.cpu_us} in ${passedUs} µs`,
  );
  const answer = await api.fetch(`/sandboxes/${id}/stats`, { headers: { accept: 'application/x-ndjson' } });
  const lines: (typeof idle)[] = [];
  let text = '';
  for await (const chunk of answer.body as ReadableStream<Uint8Array>) {
    text += Buffer.from(chunk).toString();
    lines.splice(
      0,
      lines.length,
      ...text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line)),
    );
    if (lines.length >= 3) break;
  }
  const [first, second] = [lines[1], lines[2]];
  const share =
    (100 * ((second?.cpu_us ?? 0) - (first?.cpu_us ?? 0))) /
    ((Date.parse(second?.read_at ?? '') - Date.parse(first?.read_at ?? '')) * 1000);
  t.ok(
    Math.abs((second?.cpu_percent ?? 0) - share) < 5,
    `${second?.cpu_percent} %, for ${share.toFixed(1)} %`,
  );
  await api.sh(id, 'touch /root/end');

  const before = await read();
  await api.sh(
    id,
    `nohup python3 -c "
held = bytearray(b'\\1') * (200 << 20)
open('/root/held', 'w')
import time
time.sleep(100000)" > /dev/null 2>&1 & while [ ! -e /root/held ]; do sleep 0.1; done`,
  );
  const holding = await read();
  isAbout(grown(before.private_bytes, holding.private_bytes), 200, 260, 'of its own');
  t.ok(holding.resident_bytes >= holding.private_bytes && holding.resident_bytes < 1024 * MIB);
  t.equal(holding.memory_limit_bytes, 512 * MIB);

  await api.sh(id, 'dd if=/dev/urandom of=/root/data bs=1M count=100 2>/dev/null; sync');
  const written = await read();
  isAbout(grown(holding.written_bytes, written.written_bytes), 100, 160, 'written');
  isAbout(grown(holding.layer_bytes, written.layer_bytes), 100, 140, 'on the layer');

  const fetched = await python(`
import socket
with socket.create_connection(('web.example', ${PORT})) as s:
  count = 0
  while piece := s.recv(1 << 16): count += len(piece)
print(count)`);
  t.equal(Number(fetched), 50 * MIB);
  const received = await read();
  isAbout(
    grown(written.network?.received_bytes ?? 0, received.network?.received_bytes ?? 0),
    50,
    60,
    'received',
  );
  const sentMib = grown(written.network?.sent_bytes ?? 0, received.network?.sent_bytes ?? 0);
  t.ok(sentMib > 0 && sentMib < 10, `${sentMib.toFixed(2)} MiB of acknowledgements sent`);
  await api.delete(id);
});

t.test('an open published connection is a use, even without traffic', async (t) => {
  const serve = `
import socket
s = socket.create_server(('0.0.0.0', ${PORT}))
held = []
while True:
  c, _ = s.accept()
  c.sendall(b'hello')
  held.append(c)`;
  const idleS = 6;
  const { id } = await api.create({
    profile: PROFILE,
    idle_timeout_s: idleS,
    network: { enabled: true, allowlist: ['web.example'] },
    publish: [{ host_port: PORT, guest_port: PORT }],
    service: { cmd: ['python3', '-c', serve] },
  });
  const socket = await greeted();
  const status = async () => (await api.fetch(`/sandboxes/${id}`)).status;
  // More than three times its time: what is looked for is that nothing happens.
  await sleep(3.5 * idleS * 1000);
  t.equal(await status(), 200, 'the connection keeps it');
  socket.destroy();
  while ((await status()) !== 404) await sleep(200);
  // A sandbox that is being deleted is not found any more; its events come with its record, a little later.
  const kinds = async (): Promise<(string | undefined)[]> => {
    const events = await (await api.fetch(`/events?last_event_id=0&follow=0&sandbox=${id}`)).text();
    return [...events.matchAll(/"kind":"(\w+)"/g)].map(([, kind]) => kind);
  };
  while (!(await kinds()).includes('deleted')) await sleep(200);
  t.same(await kinds(), ['created', 'idle', 'deleted']);
});

/** A connection on which the guest has said its word; what listens there may take a while until it does. */
async function greeted(): Promise<ReturnType<typeof connect>> {
  for (;;) {
    const socket = connect(PORT, '127.0.0.1');
    const [what] = await Promise.race([
      once(socket, 'data'),
      once(socket, 'close').then(() => ['closed']),
    ]).catch(() => ['refused']);
    if (String(what) === 'hello') return socket;
    socket.destroy();
    await sleep(200);
  }
}
