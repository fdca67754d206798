// egressd alone, in the place of whose daemon and gateway the test is: servers that the gateway leaves.
import '../../../support/network/own-network.ts';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(120_000));
const PROGRAM = join(import.meta.dirname, '../../../../dist/egressd');
const UID = '54321';
/** More than the gateway may have at once. */
const DIALS = 1400;

execFileSync('ip', ['link', 'set', 'lo', 'up']);
execFileSync('nft', ['-f', '-'], {
  input: `table ip redirected {
  chain output {
    type nat hook output priority -100;
    meta skuid != ${UID} ip daddr 127.0.0.2 tcp dport 80 redirect to :1443
  }
}`,
});

/** `answer`: to what it asks, by the number of the question. */
async function openRelay(t: Test, answer: (id: string, count: number) => string) {
  const dir = mkdtempSync('/tmp/egressd-');
  t.teardown(() => rmSync(dir, { recursive: true }));
  const [path, gate] = [join(dir, 'control'), join(dir, 'gate')];
  const child = spawn(PROGRAM, [UID, '/proc/self/ns/net', '127.0.0.1', '1443', path, gate], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(async () => {
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  });
  await once(child.stdout, 'data');
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): Socket => {
    sockets.add(socket.on('error', () => undefined));
    return socket.once('close', () => sockets.delete(socket));
  };
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  const control = keep(connect(path));
  const asked: string[] = [];
  let said = '';
  control.on('data', (data) => {
    said += data;
    for (const [, id = '', key = ''] of String(data).matchAll(/^ask (\d+) (.*)/gm))
      control.write(`${answer(id, asked.push(key))}\n`);
  });
  const wait = (): Socket => {
    const socket = keep(connect(gate));
    socket.write('wait\n');
    return socket;
  };
  const get = (): Socket => {
    const socket = keep(connect({ port: 80, host: '127.0.0.2' }));
    socket.write('GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n');
    return socket;
  };
  const tell = async (line: string, reply: string): Promise<void> => {
    control.write(line);
    await until(() => said.includes(reply));
  };
  return { keep, gate, wait, get, asked, tell };
}

t.test('a server that hangs is left when the gateway leaves it, with what it has not taken', async (t) => {
  const { keep, gate, wait, get } = await openRelay(t, (id, count) =>
    count === 1 ? `read ${id} 0 tag` : `yes ${id} 0 tag 127.0.0.1`,
  );
  /** It never reads, and never ends what the other side has ended. */
  let served = 0;
  const hung = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    keep(socket);
    served++;
  });
  hung.listen(80, '127.0.0.1');
  t.teardown(() => hung.close());
  await once(hung, 'listening');
  const waiting = wait();
  get();
  const [line] = await once(waiting, 'data');
  const [id] = String(line).split(' ');
  const dial = async (): Promise<Socket> => {
    const socket = keep(connect(gate));
    socket.write(`dial ${id}\n`);
    const [answer] = await once(socket, 'data');
    if (String(answer) !== 'ok\n') throw new Error(String(answer));
    return socket;
  };
  for (let count = 0; count < DIALS; count++) {
    const socket = await dial();
    if (count % 100 === 0) socket.write(Buffer.alloc(65_536));
    socket.destroy();
  }
  const opened = () =>
    execFileSync('ss', ['-tnH', 'state', 'all', '( dport = :80 and dst 127.0.0.1 )'], { encoding: 'utf8' })
      .split('\n')
      .filter((text) => /ESTAB|FIN-WAIT|CLOSING/.test(text)).length;
  await until(() => opened() === 0);
  t.equal(served, DIALS);
  (await dial()).destroy();
});

t.test('a name that is read is not asked for again while a gateway waits and the policy stays', async (t) => {
  const { wait, get, asked, tell } = await openRelay(t, (id) => `read ${id} 20 tag`);
  const handed: string[] = [];
  /** The bytes of the guest may come with the line, or after it. */
  const note = (data: Buffer): void => {
    handed.push(...(String(data).match(/^\d+ http ok\.test 80 -$/gm) ?? []));
  };
  const gateways = Array.from({ length: 4 }, () => wait().on('data', note));
  get();
  await until(() => handed.length === 1);
  get();
  await until(() => handed.length === 2);
  t.same(asked, ['http ok.test 80'], 'the second one was handed over as the first one');
  await tell('list\n', 'flows\n');
  get();
  await until(() => handed.length === 3);
  t.equal(asked.length, 2, 'a change forgets it');
  await Promise.all(gateways.map((gateway) => once(gateway.destroy(), 'close')));
  await tell('sync 1\n', 'synced 1\n');
  get();
  await until(() => asked.length === 3, 'the question that starts a gateway');
  wait().on('data', note);
  await until(() => handed.length === 4);
});
