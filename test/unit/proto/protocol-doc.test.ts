// docs/protocol.md says what the code does: its bytes and its numbers.
import { readFileSync } from 'node:fs';
import { EXEC_FRAME, encodeExecFrame, MAX_EXEC_PAYLOAD_BYTES } from '@sandboxd/api';
import * as proto from '@sandboxd/proto';
import t from 'tap';
import { dataFrame } from '../../../proto/src/wire/data-frame.ts';
import { encodeFrame } from '../../../proto/src/wire/frame-encoder.ts';
import { syncMark } from '../../../proto/src/wire/sync-mark.ts';

const page = readFileSync(new URL('../../../docs/protocol.md', import.meta.url), 'utf8');

t.test('the bytes of the examples', (t) => {
  const nonce = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex');
  const common = { version: 1, nonce, window: proto.DEFAULT_WINDOW_BYTES };
  const expected: Record<string, readonly Uint8Array[]> = {
    Hello: encodeFrame({ hello: { ...common, incarnation: 'i1' } }),
    mark: [syncMark(nonce)],
    HelloReply: encodeFrame({ helloReply: { ...common, agentVersion: '0.1', bootId: 'b' } }),
    Request: encodeFrame({ stream: 1, request: { exec: { cmd: ['cat'], stdin: true } } }),
    Started: encodeFrame({ stream: 1, started: { pid: 42 } }),
    stdin: dataFrame(1, proto.FLOW.in, Buffer.from('hi\n')),
    'stdin zero': dataFrame(1, proto.FLOW.in, Buffer.of(0)),
    'stdin end': encodeFrame({ stream: 1, end: {} }),
    stdout: dataFrame(1, proto.FLOW.out, Buffer.from('hi\n')),
    Credit: encodeFrame({ stream: 1, credit: 131_072 }),
    Cancel: encodeFrame({ stream: 1, cancel: {} }),
    Result: encodeFrame({ stream: 1, result: { exec: { exitCode: 0, durationUs: 1500 } } }),
    'exec stdout': [encodeExecFrame(EXEC_FRAME.stdout, Buffer.from('hi\n'))],
  };
  const found: Record<string, string> = {};
  for (const [, block] of page.matchAll(/```bytes\n(.*?)```/gs)) {
    for (const line of (block ?? '').trim().split('\n')) {
      const [name, hex] = line.split(/ {2,}/);
      found[name ?? ''] = hex ?? '';
    }
  }
  const hex = (chunks: readonly Uint8Array[]): string =>
    Buffer.concat(chunks).toString('hex').replace(/..\B/g, '$& ');
  t.strictSame(
    found,
    Object.fromEntries(Object.entries(expected).map(([name, chunks]) => [name, hex(chunks)])),
  );
  t.end();
});

t.test('the numbers and names of the page', (t) => {
  const numbers = [
    proto.MAX_DATA_BYTES,
    proto.MAX_FRAME_BYTES,
    proto.MAX_FRAME_BYTES + 4,
    proto.MAX_STREAMS,
    proto.DEFAULT_WINDOW_BYTES,
    proto.MIN_WINDOW_BYTES,
    proto.MAX_WINDOW_BYTES,
  ];
  for (const number of numbers) t.ok(page.includes(number.toLocaleString('en-US')), `${number}`);
  t.ok(page.includes(`*n* + ${proto.FRAME_CREDIT_BYTES}.`));
  // What came in one data frame goes on as one exec frame.
  t.equal(MAX_EXEC_PAYLOAD_BYTES, proto.MAX_DATA_BYTES);
  t.equal(proto.MAX_MESSAGE_BYTES, 4 * 2 ** 20);
  t.equal(proto.MAX_PARTS_BYTES, 8 * 2 ** 20);
  t.equal(proto.MAX_BACKLOG_BYTES, 4 * 2 ** 20);
  for (const code of proto.AGENT_ERROR_CODES) t.ok(page.includes(`\`${code}\``), code);
  for (const [name, type] of Object.entries(EXEC_FRAME)) {
    t.match(page, new RegExp(`\\| ${type} \\| ${name.replace('Close', '_close')} \\|`));
  }
  t.end();
});
