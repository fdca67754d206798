// egressd alone, in the place of whose daemon the test is: what a guest's bytes cost it, and how long its lines get.
// Connections to 127.0.0.2 are redirected to it. The numbers are those of the attack list (docs/egress-attacks.md).
import '../../../support/network/own-network.ts';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(120_000));
const PROGRAM = join(import.meta.dirname, '../../../../dist/egressd');
const UID = '54321';
execFileSync('ip', ['link', 'set', 'lo', 'up']);
execFileSync('nft', ['-f', '-'], {
  input: `table ip redirected {
  chain output {
    type nat hook output priority -100;
    meta skuid != ${UID} ip daddr 127.0.0.2 tcp dport { 80, 443 } redirect to :1443
  }
}`,
});

/** Answers each question with `answer`. */
async function start(t: Test, answer = (id: string) => `yes ${id} 0 tag 127.0.0.1\n`) {
  const dir = mkdtempSync('/tmp/egressd-');
  const path = join(dir, 'control');
  const child = spawn(PROGRAM, [UID, '/proc/self/ns/net', '127.0.0.1', '1443', path, join(dir, 'gate')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  const control = connect(path);
  const said = { text: '' };
  control.on('data', (data) => {
    said.text += data.toString('latin1');
    for (const [, id = ''] of String(data).matchAll(/^ask (\d+)/gm)) control.write(answer(id));
  });
  const clients: Socket[] = [];
  t.teardown(async () => {
    for (const each of [...clients, control]) each.destroy();
    // The next one listens on the same port.
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
    rmSync(dir, { recursive: true });
  });
  const open = (port: number) => {
    const client = connect({ port, host: '127.0.0.2', noDelay: true });
    clients.push(client.on('error', () => undefined));
    return client;
  };
  /** CPU time. */
  const spentMs = () => Number(readFileSync(`/proc/${child.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  return { control, said, open, spentMs };
}

t.test('a head that comes byte by byte costs as much per byte, however long it is', async (t) => {
  const { open, spentMs } = await start(t);
  /** For 300 bytes behind that many on each of 8 connections. */
  const cost = async (length: number) => {
    const clients = Array.from({ length: 8 }, () => open(80));
    for (const each of clients) each.write('GET / HTTP/1.1\r\nHost: ok.test\r\nX: '.padEnd(length, 'x'));
    await sleep(200);
    const before = spentMs();
    for (let n = 0; n < 300; n++) {
      for (const each of clients) each.write('x');
      await sleep(1);
    }
    await sleep(100);
    const spent = spentMs() - before;
    t.notOk(
      clients.some(({ destroyed }) => destroyed),
      'all are open',
    );
    for (const each of clients) each.destroy();
    return spent;
  };
  const [short, long] = [await cost(100), await cost(60_000)];
  t.ok(long < 2 * short + 10, `${short} ms, ${long} ms`);
});

t.test('108: what is over its limits is one line in 250 ms', async (t) => {
  const { open, said } = await start(t);
  const from = Date.now();
  for (let n = 0; n < 1200; n++) open(443);
  const lost = () => [...said.text.matchAll(/^lost (\d+)$/gm)];
  await until(() => lost().reduce((sum, [, count]) => sum + Number(count), 0) > 400);
  const most = (Date.now() - from) / 250 + 2;
  t.ok(lost().length <= most, `${lost().length} lines`);
});

t.test('a line of the daemon that is too long to be repeated says nothing else', async (t) => {
  const { control, said, open } = await start(t, (id) => `no ${id} ${'x'.repeat(5000)} tag\n`);
  control.write(`sync ${'y'.repeat(5000)}\nsync last\n`);
  await until(() => said.text.includes('last'));
  t.equal(said.text, 'synced last\n');
  const client = open(80);
  let answer = '';
  client.on('data', (data) => {
    answer += data.toString('latin1');
  });
  client.write('GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n');
  await new Promise((done) => client.on('close', done));
  t.equal(answer, '', 'nothing of its memory');
});

t.test('the kernel keeps no more than 512 KiB for each direction of a socket', async (t) => {
  const { open } = await start(t);
  const server = createServer((socket) => socket.pause().on('error', () => undefined)).listen(
    80,
    '127.0.0.1',
  );
  t.teardown(() => server.close());
  await once(server, 'listening');
  const client = open(80);
  client.write(`POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: ${64e6}\r\n\r\n`);
  client.write(Buffer.alloc(32e6));
  const sizes = () => {
    const list = execFileSync('ss', ['-tmnH', '( sport = :1443 or dport = :80 )'], { encoding: 'utf8' });
    return list.split('\n').flatMap((line, at, all) => {
      const isOurs = /127\.0\.0\.1:1443 |127\.0\.0\.1:80\s*$/.test((all[at - 1] ?? '').trimEnd());
      const [, received = '', sent = ''] = /rb(\d+),t\d+,tb(\d+)/.exec(line) ?? [];
      return isOurs && received !== '' ? [Number(received), Number(sent)] : [];
    });
  };
  await until(() => sizes().length >= 4);
  await sleep(1000);
  t.equal(sizes().length, 4, 'of both sides');
  t.ok(Math.max(...sizes()) <= 512 * 1024, String(sizes()));
});
