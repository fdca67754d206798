// Requests whose answer comes before they are whole, and those that wait for one.
import { connect as dial } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { openGateway } from '../../../support/gateway/alone.ts';
import { until } from '../../../support/until.ts';

const RULE = { host: 'ok.test', protocol: 'http', ports: [80], methods: ['GET', 'POST'] } as const;
const HEAD = 'POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n';

t.test('a change of the policy ends a request whose answer is over and whose body is not', async (t) => {
  const { listen, read, change } = openGateway(t, [RULE]);
  let got = 0;
  let isEnded = false;
  const server = await listen((socket) => {
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi'));
    socket.on('data', (data) => {
      got += data.length;
    });
    socket.once('close', () => {
      isEnded = true;
    });
  });
  const guest = dial(await read('h1', server), '127.0.0.1');
  guest.on('error', () => undefined);
  let text = '';
  guest.on('data', (data) => {
    text += data;
  });
  guest.write(`${HEAD}3\r\nabc\r\n`);
  await until(() => text.endsWith('hi'));
  guest.write('5\r\nlater\r\n');
  const before = got;
  await until(() => got > before, 'the body goes on');
  await sleep(20);
  t.equal(change([{ ...RULE, methods: ['GET'] }]), 1);
  await until(() => isEnded);
  const atEnd = got;
  guest.write('5\r\nnever\r\n');
  await until(() => guest.destroyed || guest.readableEnded);
  t.equal(got, atEnd);
});

t.test(
  'the rest of a body that its server does not wait for is read, and the connection goes on',
  async (t) => {
    const { listen, read, records, connections } = openGateway(t, [RULE]);
    const server = await listen((socket) => {
      socket.on('data', (data) => {
        if (data.includes('HTTP/1.1')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi');
      });
    });
    const guest = dial(await read('h1', server), '127.0.0.1');
    let text = '';
    guest.on('data', (data) => {
      text += data;
    });
    guest.write(`${HEAD}3\r\nabc\r\n`);
    await until(() => text.endsWith('hi'));
    guest.write('0\r\n\r\nGET /next HTTP/1.1\r\nHost: ok.test\r\n\r\n');
    await until(() => records.some(({ path, verdict }) => path === '/next' && verdict === 'allowed'));
    t.equal(records.length, 2);
    t.equal(connections[0]?.requests.size, 0);
    guest.destroy();
  },
);

t.test('a connection with too many requests that wait is ended', async (t) => {
  const { listen, read, connections } = openGateway(t, [RULE]);
  const port = await read('h1', await listen(() => undefined));
  const request = 'GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n';
  const few = dial(port, '127.0.0.1');
  few.write(request.repeat(64));
  await until(() => connections[0]?.requests.size === 64);
  t.notOk(connections[0]?.isOver);
  const many = dial(port, '127.0.0.1');
  many.on('error', () => undefined);
  many.write(request.repeat(20_000));
  await until(() => connections[1]?.isOver === true);
  t.ok((connections[1]?.requests.size ?? 0) <= 64);
  few.destroy();
});
