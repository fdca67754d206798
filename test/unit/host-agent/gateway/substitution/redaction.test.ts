// Answers to requests with a secret: values are found in many forms, over any borders, and lengths stay.
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import {
  FrameRedaction,
  type Headers,
  Redaction,
} from '../../../../../host-agent/src/gateway/substitution/index.ts';
import { until } from '../../../../support/until.ts';

const PLAIN = 'ghp_0123456789abcdefABCDEF0123456789';
const ODD = `p/+"\\<&>='s~ %x?!(${PLAIN})`;

function redactionOf(...values: string[]): Redaction {
  return Redaction.of(values.map((value) => ({ value: Buffer.from(value) })));
}

function feed(redaction: Redaction, text: string, size: number): string {
  const redactor = redaction.redactor();
  const parts: Buffer[] = [];
  for (let at = 0; at < text.length; at += size)
    parts.push(redactor.push(Buffer.from(text.slice(at, at + size), 'latin1')));
  parts.push(redactor.end());
  return Buffer.concat(parts).toString('latin1');
}

async function readBody(redaction: Redaction, headers: Headers, body: Buffer, status = 200) {
  const answer = redaction.answer(status, headers);
  if (answer.kind === 'unreadable') throw new Error(answer.reason);
  const parts: Buffer[] = [];
  const chunks = Array.from({ length: Math.ceil(body.length / 5) }, (_, n) =>
    body.subarray(n * 5, n * 5 + 5),
  );
  await pipeline([
    Readable.from(chunks),
    ...answer.body,
    async (source: AsyncIterable<Buffer>) => {
      for await (const part of source) parts.push(part);
    },
  ]);
  return { headers: answer.headers, body: Buffer.concat(parts).toString() };
}

t.test('each form is found in any chunks, and only stars are left', async (t) => {
  for (const value of [PLAIN, ODD]) {
    const hex = Buffer.from(value).toString('hex');
    const forms = {
      raw: value,
      hex,
      'upper hex': hex.toUpperCase(),
      percent: encodeURIComponent(value),
      'lower percent': encodeURIComponent(value).replace(/%../g, (code) => code.toLowerCase()),
      form: new URLSearchParams({ v: value }).toString().slice(2),
      json: JSON.stringify(value).slice(1, -1),
      'json with slashes': JSON.stringify(value).slice(1, -1).replaceAll('/', '\\/'),
      'json of Go': JSON.stringify(value)
        .slice(1, -1)
        .replace(/[<>&]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`),
    };
    const redaction = redactionOf(value);
    for (const [name, form] of Object.entries(forms))
      for (const size of [1, 3, 16, 1000]) {
        const text = `before ${form}${form} after`;
        t.equal(
          feed(redaction, text, size),
          `before ${'*'.repeat(2 * form.length)} after`,
          `${name} by ${size}`,
        );
      }
  }
});

t.test('base64 of what surrounds it is found at each of its three places', async (t) => {
  const redaction = redactionOf(ODD);
  for (let before = 0; before < 6; before++)
    for (const encoding of ['base64', 'base64url'] as const) {
      const text = Buffer.from(`${'u'.repeat(before)}${ODD}${'tail'.slice(0, before % 4)}`).toString(
        encoding,
      );
      const redacted = feed(redaction, text, 7);
      t.equal(redacted.length, text.length);
      const left = Buffer.from(redacted.replaceAll('*', ''), encoding);
      t.ok(left.length <= before + 4, `at most its neighbours are left at ${before}: ${redacted}`);
    }
});

t.test('the pair of Basic credentials is found whole', async (t) => {
  const pair = Buffer.from(`user:${PLAIN}`).toString('base64');
  const redaction = redactionOf(PLAIN).with([pair]);
  t.equal(redaction.text(`got Basic ${pair}!`), `got Basic ${'*'.repeat(pair.length)}!`);
});

t.test('headers, trailers and their names are redacted', async (t) => {
  const redaction = redactionOf(PLAIN);
  const stars = '*'.repeat(PLAIN.length);
  const headers = redaction.headers([
    ['Location', `https://x.test/?t=${PLAIN}`],
    ['Set-Cookie', `t=${PLAIN}`],
    [`X-${PLAIN.toLowerCase()}`, '1'],
    ['Content-Length', '5'],
  ]);
  t.strictSame(headers, [
    ['Location', `https://x.test/?t=${stars}`],
    ['Set-Cookie', `t=${stars}`],
    ['Content-Length', '5'],
  ]);
});

t.test('what is held back does not depend on a likeness to a value', async (t) => {
  const texts = [`x ${PLAIN.slice(0, 5)}`, `x ${PLAIN.slice(0, 4)}?`, `x ${'y'.repeat(5)}`];
  for (const more of ['', PLAIN.slice(5), 'z'.repeat(PLAIN.length - 5), 'z'.repeat(500)]) {
    const lengths = texts.map((text) => {
      const redactor = redactionOf(PLAIN).redactor();
      return [text, more].map((part) => redactor.push(Buffer.from(part)).length);
    });
    t.strictSame(lengths[1], lengths[0]);
    t.strictSame(lengths[2], lengths[0]);
  }
});

t.test('a line is not held back, nor is what comes before a byte that no value has', async (t) => {
  const redactor = redactionOf(PLAIN).redactor();
  t.equal(redactor.push(Buffer.from('data: event\n\n')).toString(), 'data: event\n\n');
  t.equal(redactor.push(Buffer.from(`${PLAIN}\nab`)).toString(), `${'*'.repeat(PLAIN.length)}\n`);
  t.equal(redactor.heldBytes, 2);
  t.equal(redactor.push(Buffer.from([0xc3, 0xa4])).length, 4);
  t.equal(redactor.push(Buffer.from(PLAIN.slice(0, 10))).length, 0);
  t.equal(redactor.end().toString(), PLAIN.slice(0, 10));
  t.equal(redactor.end().length, 0);
});

t.test('of two values that begin alike, the longer is found, over any border', async (t) => {
  const long = `${PLAIN}-and-a-longer-end`;
  for (const size of [1, 7, PLAIN.length, 1000])
    for (const values of [
      [PLAIN, long],
      [long, PLAIN],
    ])
      t.equal(feed(redactionOf(...values), `${long}.`, size), `${'*'.repeat(long.length)}.`, `by ${size}`);
});

t.test('a message of gRPC is not held back, and its length stays', async (t) => {
  const toMessage = (text: string) => {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(text.length, 1);
    return Buffer.concat([head, Buffer.from(text)]);
  };
  const headers = [['content-type', 'application/grpc+proto']] as const;
  const answer = redactionOf(PLAIN).answer(200, headers);
  if (answer.kind === 'unreadable') throw new Error(answer.reason);
  const [body] = answer.body;
  body?.write(toMessage(`ok ${PLAIN}`));
  t.equal(String(body?.read()), toMessage(`ok ${'*'.repeat(PLAIN.length)}`).toString());
  const messages = Buffer.concat([toMessage(PLAIN), toMessage(''), toMessage('end')]);
  const all = await readBody(redactionOf(PLAIN), headers, messages);
  const expected = [toMessage('*'.repeat(PLAIN.length)), toMessage(''), toMessage('end')];
  t.equal(all.body, Buffer.concat(expected).toString());
});

t.test('random streams are what a search in the whole would make of them', async (t) => {
  const value = 'aabaabaaab';
  const redaction = redactionOf(value);
  let seed = 7;
  const next = (max: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * max);
  };
  for (let round = 0; round < 500; round++) {
    const text = Array.from({ length: next(120) }, () => 'aab'[next(3)]).join('');
    const expected = text.replaceAll(value, '*'.repeat(value.length));
    const redactor = redaction.redactor();
    let got = '';
    for (let at = 0; at < text.length; ) {
      const size = 1 + next(9);
      got += redactor.push(Buffer.from(text.slice(at, at + size))).toString();
      t.ok(redactor.heldBytes < 8 * value.length);
      at += size;
    }
    got += redactor.end().toString();
    if (got !== expected) t.equal(got, expected, text);
  }
});

t.test('an answer that is encoded, though identity was asked for, is decoded', async (t) => {
  const redaction = redactionOf(PLAIN);
  const text = Buffer.from(`{"token":"${PLAIN}"}`);
  const codings = {
    gzip: gzipSync(text),
    deflate: deflateSync(text),
    br: brotliCompressSync(text),
    zstd: zstdCompressSync(text),
  };
  for (const [coding, body] of Object.entries(codings)) {
    const headers = [
      ['Content-Encoding', coding.toUpperCase()],
      ['Content-Length', `${body.length}`],
      ['X-A', '1'],
    ] as const;
    const answer = await readBody(redaction, headers, body);
    t.strictSame(
      answer,
      { headers: [['X-A', '1']], body: `{"token":"${'*'.repeat(PLAIN.length)}"}` },
      coding,
    );
  }
  await t.rejects(readBody(redaction, [['content-encoding', 'gzip']], Buffer.from('no gzip')));
  const plain = await readBody(redaction, [['Content-Length', '3']], Buffer.from('abc'));
  t.strictSame(plain, { headers: [['Content-Length', '3']], body: 'abc' });
});

t.test('110: a decompression bomb is read only as far as the guest takes it', async (t) => {
  const bomb = gzipSync(Buffer.alloc(2 ** 26));
  const answer = redactionOf(PLAIN).answer(200, [['content-encoding', 'gzip']]);
  if (answer.kind === 'unreadable') throw new Error(answer.reason);
  const [decoder, redactor] = answer.body;
  if (decoder === undefined || redactor === undefined) throw new Error('it has two steps');
  let decodedBytes = 0;
  decoder.on('data', (data: Buffer) => {
    decodedBytes += data.length;
  });
  decoder.pipe(redactor);
  decoder.end(bomb);
  await until(() => redactor.writableNeedDrain);
  // Nothing more comes while nothing is read.
  const before = decodedBytes;
  await new Promise((done) => setTimeout(done, 100));
  t.equal(decodedBytes, before);
  t.ok(decodedBytes < 2 ** 20, `${decodedBytes} bytes`);
  let size = 0;
  for await (const part of redactor as AsyncIterable<Buffer>) size += part.length;
  t.equal(size, 2 ** 26);
});

t.test('an answer that cannot be read is refused', async (t) => {
  const redaction = redactionOf(PLAIN);
  for (const coding of ['compress', 'gzip, br', 'x'.repeat(100), 'constructor'])
    t.match(redaction.answer(200, [['Content-Encoding', coding]]), { kind: 'unreadable' });
  t.match(redaction.answer(206, []), { kind: 'unreadable', reason: /a part/ });
});

function frame(payload: string, first = 0x81): Buffer {
  const body = Buffer.from(payload);
  if (body.length < 126) return Buffer.concat([Buffer.from([first, body.length]), body]);
  const head = Buffer.from([first, 126, 0, 0]);
  head.writeUInt16BE(body.length, 2);
  return Buffer.concat([head, body]);
}

t.test('frames of a WebSocket keep their lengths, and a value may span them', async (t) => {
  const stars = '*'.repeat(PLAIN.length);
  const [one, two] = [PLAIN.slice(0, 11), PLAIN.slice(11)];
  const sent = [
    frame(`a${PLAIN}b`),
    frame(`x${one}`, 0x01),
    frame(`ping ${PLAIN}`, 0x89),
    frame(`${two}y`, 0x80),
  ];
  const expected = [
    frame(`a${stars}b`),
    frame(`x${stars.slice(0, 11)}`, 0x01),
    frame(`ping ${stars}`, 0x89),
    frame(`${stars.slice(11)}y`, 0x80),
  ];
  const long = 'z'.repeat(5000) + PLAIN;
  const bytes = Buffer.concat([...sent, frame(long), frame(''), frame('end')]);
  const all = Buffer.concat([...expected, frame('z'.repeat(5000) + stars), frame(''), frame('end')]);
  for (const size of [1, 2, 13, 4096, bytes.length]) {
    const redaction = new FrameRedaction(() => redactionOf(PLAIN).redactor());
    const parts: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += size) parts.push(redaction.push(bytes.subarray(at, at + size)));
    parts.push(redaction.end());
    t.strictSame(Buffer.concat(parts), all, `in chunks of ${size}`);
  }
});

t.test('a message of a WebSocket is not held back, whatever it has', async (t) => {
  for (const text of [PLAIN.slice(0, 5), 'other']) {
    const redaction = new FrameRedaction(() => redactionOf(PLAIN).redactor());
    t.equal(redaction.push(frame(text)).length, 2 + text.length);
    t.equal(redaction.push(frame(text, 0x01)).length, 2, 'one that has an end to come');
    t.equal(redaction.push(frame('', 0x80)).length, 2 + text.length);
  }
});

t.test('frames that a client cannot have asked for end the connection', async (t) => {
  const redact = (bytes: number[]) => () =>
    new FrameRedaction(() => redactionOf(PLAIN).redactor()).push(Buffer.from(bytes));
  t.throws(redact([0xc1, 1, 65]), /extension/);
  t.throws(redact([0x81, 0x81]), /masked/);
  t.throws(redact([0x89, 126, 1, 0]), /too long/);
  t.throws(redact([0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0]), /too long/);
});
