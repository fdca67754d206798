// Connections to ports of real guests that have no network: bytes, ends, resets, what sleeps, and copies.
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type Duplex, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Client } from '../../client/src/index.ts';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(900_000));
const MIB = 2 ** 20;

/** Echoes each connection until its client has ended, and then ends. Notes how each ended. */
const ECHO = `
use strict; use IO::Socket::IP; $SIG{CHLD} = "IGNORE"; $SIG{PIPE} = "IGNORE";
my $s = IO::Socket::IP->new(LocalHost => $ARGV[0], LocalPort => $ARGV[1], Listen => 64, ReuseAddr => 1) or die "$@";
while (my $c = $s->accept) {
  if (fork) { close $c; next }
  my ($n, $b); while ($n = sysread $c, $b, 65536) { for (my $at = 0; $at < $n;) { my $w = syswrite($c, $b, $n - $at, $at) or last; $at += $w } }
  open(my $f, ">>", "/root/ends"); print $f defined $n ? "end\\n" : "reset\\n"; exit;
}`;

const daemon = await startDaemon(t);
const { api } = daemon;
const client = new Client({ host: api.url });
const { id } = await api.create({ memory_mib: 256 });
const sandbox = client.sandboxes.get(id);
const start = (host: string, port: number): Promise<string> =>
  api.sh(id, `nohup perl -e '${ECHO}' ${host} ${port} > /root/log-${port} 2>&1 &`);

/** Once its server listens. */
async function connectTo(port: number, target = sandbox): Promise<Duplex> {
  for (;;) {
    try {
      return await target.connect(port);
    } catch (error) {
      if ((error as { code?: string }).code !== 'port_not_listening') throw error;
      await sleep(200);
    }
  }
}

/** How connections ended, once so many have. */
async function ends(of: string, count = 1): Promise<string> {
  const script = `until [ $(wc -l < /root/ends) -ge ${count} ]; do sleep 0.1; done; cat /root/ends`;
  return api.sh(of, script);
}

async function say(connection: Duplex, text: string): Promise<string> {
  connection.write(text);
  const [chunk] = await once(connection, 'data');
  return String(chunk);
}

t.test('a guest without a network is reached at each of its addresses', async (t) => {
  t.equal(await api.sh(id, 'ls /sys/class/net'), 'lo');
  await t.rejects(sandbox.connect(8000), { status: 502, code: 'port_not_listening' });
  await Promise.all([start('127.0.0.1', 8000), start('::1', 8001), start('127.0.1.1', 8002)]);
  for (const port of [8000, 8001, 8002]) {
    const connection = await connectTo(port);
    t.equal(await say(connection, 'hello'), 'hello', String(port));
    connection.end();
    await once(connection, 'end');
  }
  t.equal(await ends(id, 3), 'end\nend\nend', 'the ends of the clients were ends');
});

t.test('64 MiB both ways arrive whole', async (t) => {
  const connection = await connectTo(8000);
  const sent = createHash('sha256');
  const received = createHash('sha256');
  async function* source() {
    for (let at = 0; at < 64; at++) {
      const block = randomBytes(MIB);
      sent.update(block);
      yield block;
    }
  }
  await Promise.all([pipeline(Readable.from(source()), connection), pipeline(connection, received)]);
  t.equal(received.digest('hex'), sent.digest('hex'));
});

t.test('a reset is a reset', async (t) => {
  await api.sh(id, ': > /root/ends');
  const connection = await connectTo(8000);
  t.equal(await say(connection, 'x'), 'x');
  (connection as Duplex & { resetAndDestroy(): void }).resetAndDestroy();
  t.equal(await ends(id), 'reset');
});

t.test('a connection resumes what sleeps, and those from before are reset', async (t) => {
  await api.sh(id, ': > /root/ends');
  const before = await connectTo(8000);
  t.equal(await say(before, 'x'), 'x');
  const failed = once(before, 'error');
  await sandbox.pause();
  t.match((await failed)[0], { code: 'ECONNRESET' });
  const after = await connectTo(8000);
  t.equal(await say(after, 'awake'), 'awake');
  t.equal((await sandbox.info()).state, 'running');
  t.equal(await ends(id), 'reset', 'the server has learnt of it');
  after.end();
  await once(after, 'end');
});

t.test('a copy has the server, and none of the connections', async (t) => {
  await api.sh(id, ': > /root/ends');
  const connection = await connectTo(8000);
  t.equal(await say(connection, 'x'), 'x');
  await sandbox.ports.open(8000, { access: 'public' });
  const snapshot = await sandbox.snapshot();
  const [copy] = await snapshot.fork();
  if (copy === undefined) throw new Error('there is no copy');
  t.equal(await say(await connectTo(8000, copy), 'copy'), 'copy');
  t.equal(await ends(copy.id), 'reset');
  t.same(await copy.ports.list(), [], 'the copy has no open ports');
  t.equal(await say(connection, 'still'), 'still', 'that of the source goes on');
  t.equal(await api.sh(id, 'cat /root/ends'), '');
  connection.end();
  await once(connection, 'end');
});
