// Watches from the host's side; the test acts as the agent, also as a hostile one.
import * as api from '@sandboxd/api';
import * as proto from '@sandboxd/proto';
import {
  FLOW,
  type ResultInput,
  type Stream,
  WATCH_END,
  WatchRecordReader,
  writeWatchRecord,
} from '@sandboxd/proto';
import t from 'tap';
import { watchFiles } from '../../../../host-agent/src/guest/file-watch.ts';
import { WatchStream } from '../../../../host-agent/src/http/routes/watch-files.ts';
import { settle } from '../../../support/memory-link.ts';
import { channelPair } from '../../proto/support/channel-pair.ts';

type Record = Parameters<typeof writeWatchRecord>[2];
const ARMED: Record = { type: 'armed', directories: 3 };

function encode(...records: readonly Record[]): Buffer {
  return Buffer.concat(
    records.map((record) => {
      const bytes = Buffer.alloc(9000);
      return bytes.subarray(0, writeWatchRecord(bytes, 0, record));
    }),
  );
}

/** Sends the bytes, and then the result if there is one. `endless`: the last bytes again and again. */
function send(stream: Stream, bytes: Buffer, result: ResultInput | undefined, endless?: Buffer): number[] {
  const sent = [0];
  let at = 0;
  stream.setSource(FLOW.out, (maxBytes) => {
    const rest = bytes.subarray(at, at + maxBytes);
    at += rest.length;
    const chunk = rest.length > 0 ? rest : endless?.subarray(0, maxBytes - (maxBytes % 13));
    if (chunk !== undefined && chunk.length > 0) {
      sent[0] = (sent[0] ?? 0) + chunk.length;
      return chunk;
    }
    if (result !== undefined) stream.finish(result);
    return null;
  });
  stream.ready(FLOW.out);
  return sent;
}

function open(bytes: Buffer, result?: ResultInput, endless?: Buffer) {
  let cancels = 0;
  let sent: number[] = [];
  const pair = channelPair((stream, request) => {
    if (request.fileWatch?.recursive !== true) throw new Error('another request');
    stream.handlers = { cancel: () => void cancels++ };
    sent = send(stream, bytes, result, endless);
  });
  const channel = Object.assign(Object.create(pair.host), {
    can: () => true,
    open: pair.host.open.bind(pair.host),
  }) as typeof pair.host;
  const stopping = new AbortController();
  const client = new AbortController();
  let ends = 0;
  const stream = new WatchStream({
    directory: Buffer.from('/srv'),
    areLines: true,
    signal: client.signal,
    stopping: stopping.signal,
    watch: (events) => watchFiles({ channel }, { recursive: true }, events),
    onEnd: () => void ends++,
  });
  const readAll = async () => {
    let text = '';
    for (let chunk = await stream.next(); chunk !== undefined; chunk = await stream.next())
      text += chunk.bytes;
    return text
      .trim()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { type: string; reason?: string; message?: string });
  };
  return {
    pair,
    stream,
    stopping,
    client,
    readAll,
    cancels: () => cancels,
    ends: () => ends,
    sent: () => sent[0] ?? 0,
  };
}

t.test('records become events with the path of the request', async (t) => {
  const bytes = encode(
    ARMED,
    { type: 'create', path: 'a', isDirectory: true },
    { type: 'write', path: 'a/b', isClosed: true },
    { type: 'rename', path: 'c', from: '\xff' },
    { type: 'overflow', directories: 2 },
  );
  const { pair, stream, readAll, ends } = open(bytes, { fileWatch: { reason: WATCH_END.TOO_MANY } });
  await settle(pair.links);
  await stream.opened;
  t.same(await readAll(), [
    { type: 'armed', directories: 3 },
    { type: 'create', path: '/srv/a', directory: true },
    { type: 'write', path: '/srv/a/b', closed: true },
    {
      type: 'rename',
      path: '/srv/c',
      from: '/srv/\ufffd',
      from_base64: Buffer.from('/srv/\xff', 'latin1').toString('base64'),
    },
    { type: 'overflow', directories: 2 },
    { type: 'end', reason: 'limit', message: 'there are more directories than can be watched' },
  ]);
  t.equal(ends(), 1);
  t.equal(pair.host.streamCount, 0);
});

t.test('records are the same however they are cut', (t) => {
  const bytes = encode(ARMED, { type: 'create', path: 'x'.repeat(4095) }, { type: 'remove', path: 'y' });
  for (const size of [1, 7, 12, 13, 100, 5000]) {
    const reader = new WatchRecordReader();
    const parts: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += size) {
      const whole = reader.push(bytes.subarray(at, at + size));
      if (whole !== undefined) parts.push(Buffer.from(whole));
    }
    t.ok(Buffer.concat(parts).equals(bytes), `${size}`);
  }
  t.end();
});

t.test('what is no change of a name is a violation, which closes the connection', async (t) => {
  const raw = (type: number, path: string, from = '') => {
    const record = encode({ type: 'create', path, from });
    record[0] = type;
    return record;
  };
  const lies: [string, Buffer][] = [
    ['no armed', encode({ type: 'create', path: 'a' })],
    ['armed twice', encode(ARMED, ARMED)],
    ['a NUL', encode(ARMED, { type: 'create', path: 'a\0b' })],
    ['a slash first', encode(ARMED, { type: 'create', path: '/a' })],
    ['a slash last', encode(ARMED, { type: 'create', path: 'a/' })],
    ['a way up', encode(ARMED, { type: 'create', path: '../a' })],
    ['a way up within', encode(ARMED, { type: 'rename', path: 'a', from: 'a/../../b' })],
    ['a dot', encode(ARMED, { type: 'remove', path: '.' })],
    ['no name', encode(ARMED, { type: 'create' })],
    ['two names', encode(ARMED, { type: 'create', path: 'a', from: 'b' })],
    ['one name', encode(ARMED, { type: 'rename', path: 'a' })],
    ['a name of armed', raw(0, 'a')],
    ['an unknown type', Buffer.concat([encode(ARMED), raw(7, 'a')])],
    ['a long path', Buffer.concat([encode(ARMED), Buffer.alloc(65_000, 0xff)])],
  ];
  for (const [what, bytes] of lies)
    t.throws(() => new WatchRecordReader().push(bytes), { name: 'ProtocolViolation' }, what);
  const { pair, readAll } = open(encode(ARMED), { fileWatch: { reason: 99 as never } });
  await settle(pair.links);
  t.match((await readAll()).at(-1), { type: 'end', reason: 'lost', message: /no reason/ });
});

t.test('a guest without an end costs one window for a client that does not read', async (t) => {
  const endless = encode(...Array.from({ length: 1000 }, () => ({ type: 'attrib', path: 'a' }) as const));
  const { pair, stream, sent, cancels, ends } = open(encode(ARMED), undefined, endless);
  await settle(pair.links);
  await stream.opened;
  const before = sent();
  t.ok(before <= proto.DEFAULT_WINDOW_BYTES, `${before} bytes`);
  const chunk = await stream.next();
  t.ok((chunk?.bytes.length ?? 0) < 70_000, 'a client that reads gets it in pieces');
  await settle(pair.links);
  t.ok(sent() < before + 200_000, `${sent()} bytes`);
  stream.cancel();
  stream.cancel();
  await settle(pair.links);
  t.same([cancels(), ends(), await stream.next()], [1, 1, undefined]);
});

t.test('a refusal, a client that leaves, and a daemon that stops', async (t) => {
  const refused = open(Buffer.alloc(0), { error: { code: 'permission_denied', message: 'no' } });
  await settle(refused.pair.links);
  await t.rejects(refused.stream.opened, { code: 'invalid_argument', message: 'no' });
  t.equal(refused.ends(), 1);
  const left = open(encode(ARMED));
  await settle(left.pair.links);
  left.client.abort(new Error('it left'));
  await settle(left.pair.links);
  t.same([left.cancels(), left.ends()], [1, 1]);
  const stopped = open(encode(ARMED));
  await settle(stopped.pair.links);
  stopped.stopping.abort();
  t.match(await stopped.readAll(), [{ type: 'armed' }, { type: 'end', reason: 'stopping' }]);
  await settle(stopped.pair.links);
  t.same([stopped.cancels(), stopped.ends()], [1, 1]);
});

t.test('a guest of an older agent, and the limits of both interfaces', (t) => {
  const pair = channelPair(() => undefined);
  const channel = Object.assign(Object.create(pair.host), { can: () => false });
  const events = { records: () => undefined, end: () => undefined, failed: () => undefined };
  t.throws(() => watchFiles({ channel }, {}, events), { code: 'unsupported', message: /create another/ });
  t.equal(api.MAX_FILE_WATCHES, proto.MAX_FILE_WATCHES);
  t.equal(api.MAX_WATCHED_DIRECTORIES, proto.MAX_WATCHED_DIRECTORIES);
  t.end();
});
