// Heads that Node's own functions refuse to write: each ends its request, and nothing else.

import { once } from 'node:events';
import { connect, createServer, type ServerHttp2Stream } from 'node:http2';
import { connect as dial } from 'node:net';
import t from 'tap';
import { openGateway } from '../../../support/gateway/alone.ts';
import { until } from '../../../support/until.ts';

const HTTP = { host: 'ok.test', protocol: 'http', ports: [80], methods: ['GET', 'POST'] } as const;
const TLS = { host: 'ok.test', protocol: 'tls', ports: [443], tls: 'inspect' } as const;
const TWICE = { maxSessionMemory: 10, strictSingleValueFields: false };
const OK = 'HTTP/1.1 200 OK\r\n';

t.test('answers of HTTP/1 that would mean something else', async (t) => {
  const { listen, read, records } = openGateway(t, [HTTP]);
  const answers: Record<string, [string, RegExp]> = {
    control: ['HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n', /^HTTP\/1.1 502 /],
    zero: ['HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n', /^HTTP\/1.1 502 /],
    below: ['HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n', /^HTTP\/1.1 502 /],
    above: ['HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n', /^HTTP\/1.1 502 /],
    unasked: ['HTTP/1.1 101 Switching Protocols\r\n\r\nabc', /^HTTP\/1.1 502 /],
    coded: [`${OK}Transfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`, /^HTTP\/1.1 502 /],
    high: [`${OK}X: \xff\x80\r\nContent-Length: 0\r\n\r\n`, /^HTTP\/1.1 200 OK/],
    chunked: [`${OK}Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`, /^HTTP\/1.1 200 OK.*abc/s],
  };
  for (const [name, [bytes, expected]] of Object.entries(answers)) {
    const server = await listen((socket) => socket.once('data', () => socket.write(bytes, 'latin1')));
    const guest = dial(await read('h1', server), '127.0.0.1');
    let text = '';
    guest.on('data', (data) => {
      text += data.toString('latin1');
    });
    guest.write('GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n');
    await until(() => text.includes('\r\n\r\n') && (name !== 'chunked' || text.includes('abc')));
    t.match(text, expected, name);
    guest.destroy();
  }
  await until(() => records.length === 8);
});

t.test('fields of HTTP/2 that come twice, or concern one connection', async (t) => {
  const { listen, read } = openGateway(t, [TLS]);
  const server = createServer(TWICE);
  const seen: string[][] = [];
  server.on('stream', (stream: ServerHttp2Stream, _headers, _flags, raw) => {
    stream.on('error', () => undefined);
    seen.push(raw as unknown as string[]);
    const twice = ['x-content-type-options', 'nosniff', 'x-content-type-options', 'nosniff'];
    stream.respond([':status', '200', ...twice, 'date', 'a', 'date', 'b'] as never);
    stream.end('ok');
  });
  const port = await read('h2', await listen((socket) => server.emit('connection', socket)));
  const client = connect(`http://127.0.0.1:${port}`, TWICE);
  t.teardown(() => client.destroy());
  const ask = async (path: string, ...more: string[]) => {
    const head = [':method', 'GET', ':scheme', 'https', ':authority', 'ok.test', ':path', path, ...more];
    const stream = client.request(head as never);
    let text = '';
    stream.on('response', (fields) => {
      text += fields[':status'];
    });
    stream.on('data', (data) => {
      text += data;
    });
    stream.end();
    await once(stream, 'close');
    return text;
  };
  t.equal(await ask('/', 'user-agent', 'a', 'user-agent', 'b', 'constructor', 'x'), '200ok');
  t.ok(seen[0]?.includes('constructor'));
  t.equal(seen[0]?.filter((text) => text === 'user-agent').length, 2);
});

function frame(type: number, flags: number, id: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(id, 5);
  return Buffer.concat([head, payload]);
}

/** Without a table of fields. */
function fields(...pairs: readonly (readonly [string, string])[]): Buffer {
  const literal = (text: string): Buffer => Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]);
  return Buffer.concat(
    pairs.flatMap(([name, value]) => [Buffer.from([0x10]), literal(name), literal(value)]),
  );
}

t.test('heads of HTTP/2 that no server in Node would write', async (t) => {
  const { listen, read } = openGateway(t, [TLS]);
  const ok = fields([':status', '200']);
  const answers: Record<string, [(id: number) => Buffer[], string]> = {
    600: [(id) => [frame(1, 5, id, fields([':status', '600']))], '502'],
    999: [(id) => [frame(1, 5, id, fields([':status', '999']))], '502'],
    trailers: [
      (id) => [
        frame(1, 4, id, ok),
        frame(0, 0, id, Buffer.from('ok')),
        frame(1, 5, id, fields(['http2-settings', 'x'], ['x-last', 'yes'])),
      ],
      '200okyes',
    ],
    'trailers twice': [
      (id) => [frame(1, 4, id, ok), frame(1, 5, id, fields(['date', 'a'], ['date', 'b'], ['x-last', 'yes']))],
      '200yes',
    ],
  };
  for (const [name, [toFrames, expected]] of Object.entries(answers)) {
    const server = await listen((socket) => {
      socket.write(frame(4, 0, 0, Buffer.alloc(0)));
      let bytes: Buffer = Buffer.alloc(0);
      let at = 24;
      socket.on('data', (data: Buffer) => {
        bytes = Buffer.concat([bytes, data]);
        for (; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3))
          if (bytes[at + 3] === 1) socket.write(Buffer.concat(toFrames(bytes.readUInt32BE(at + 5))));
      });
    });
    const client = connect(`http://127.0.0.1:${await read('h2', server)}`);
    client.on('error', () => undefined);
    const stream = client.request({ ':scheme': 'https', ':authority': 'ok.test', ':path': '/' });
    let text = '';
    stream.on('error', () => undefined);
    stream.on('response', (head) => {
      text += head[':status'];
    });
    stream.on('data', (data) => {
      text += data;
    });
    stream.on('trailers', (head) => {
      text += head['x-last'];
    });
    await once(stream, 'close');
    t.match(text, new RegExp(`^${expected}`), name);
    client.destroy();
  }
});

t.test('a connection whose server was not dialled answers once, and ends', async (t) => {
  const { read } = openGateway(t, [TLS]);
  const client = connect(`http://127.0.0.1:${await read('h2', 0)}`);
  const stream = client.request({ ':scheme': 'https', ':authority': 'ok.test', ':path': '/' });
  const [answered] = await once(stream, 'response');
  t.equal(answered[':status'], 502);
  stream.resume();
  await once(client, 'close');
});
