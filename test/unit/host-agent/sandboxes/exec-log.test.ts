// Logged output of execs: a short one completely, the ends of a long one, never part of a character.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { type LogRecord, LogStore } from '../../../../host-agent/src/logs/index.ts';
import { logExecEvents, logExecStart, OutputTail } from '../../../../host-agent/src/sandboxes/exec.ts';

const ID = 'sbx_0123456789abc';
const MIB = 2 ** 20;

/** The records of one exec that wrote `output` to stdout in chunks of `pieceBytes`. */
async function logged(t: Test, output: Buffer, pieceBytes: number): Promise<LogRecord[]> {
  const dir = await mkdtemp(join(tmpdir(), 'sandboxd-exec-log-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const store = new LogStore({
    dir,
    maxBytes: 64 * MIB,
    retentionMs: 1e6,
    retentionBytes: 1e9,
    log: pino({ level: 'silent' }),
  });
  await store.start(new Set());
  const log = await store.open(ID);
  if (log === undefined) throw new Error('no log');
  const passed: Buffer[] = [];
  const events = logExecEvents(log, {
    output: (_stream, chunk) => void passed.push(Buffer.from(chunk)),
    exit: () => undefined,
  });
  for (let at = 0; at < output.length; at += pieceBytes) {
    events.output('stdout', output.subarray(at, at + pieceBytes));
    if (at % (4 * MIB) < pieceBytes) await log.flush();
  }
  events.exit({ exitCode: 0 } as Parameters<typeof events.exit>[0]);
  t.ok(Buffer.concat(passed).equals(output), 'everything is passed on');
  const records: LogRecord[] = [];
  await log.flush();
  for (let since = 0; ; ) {
    const page = await store.read(ID, { since });
    records.push(...(page?.records ?? []));
    if (page === undefined || page.nextOffset === since) break;
    since = page.nextOffset;
  }
  await log.close();
  return records;
}

t.test('a short output is logged completely', async (t) => {
  const text = 'é€𝄞'.repeat(100_000);
  const records = await logged(t, Buffer.from(text), 10_007);
  const parts = records.filter(({ stream }) => stream === 'stdout').map((record) => record.text);
  t.equal(parts.join(''), text);
  t.same(
    records.filter(({ stream }) => stream === 'event').map((record) => record.text),
    ['exit 0'],
  );
});

t.test('a long output is logged from both ends, and the omitted bytes are counted', async (t) => {
  const text = Array.from({ length: 400_000 }, (_, n) => `line ${n} é€𝄞\n`).join('');
  const whole = Buffer.from(text);
  for (const pieceBytes of [60_013, 262_144]) {
    const records = await logged(t, whole, pieceBytes);
    const gap = records.findIndex(({ text }) => text.includes('were not logged'));
    const head = records.slice(0, gap).map(({ text }) => text);
    const tail = records.slice(gap + 1, -1).map(({ text }) => text);
    const missing = Number(/^(\d+) bytes of stdout/.exec(records[gap]?.text ?? '')?.[1]);
    t.ok(text.startsWith(head.join('')) && text.endsWith(tail.join('')));
    t.equal(missing, whole.length - Buffer.byteLength(head.join('')) - Buffer.byteLength(tail.join('')));
    t.ok(Buffer.byteLength(head.join('')) >= 4 * MIB && Buffer.byteLength(tail.join('')) > 65_530);
    t.notMatch(tail.join(''), /\ufffd/);
    t.equal(records.at(-1)?.text, 'exit 0');
  }
});

t.test('an output just longer than its head is logged completely', async (t) => {
  const text = 'x'.repeat(4 * MIB + 65_536);
  const records = await logged(t, Buffer.from(text), MIB);
  t.same(
    records.filter(({ stream }) => stream === 'event').map((record) => record.text),
    ['exit 0'],
  );
  const parts = records.filter(({ stream }) => stream === 'stdout').map((record) => record.text);
  t.equal(parts.join('').length, text.length);
});

t.test('a command line is truncated at a length, and all events are passed on', (t) => {
  const said: unknown[] = [];
  const log = {
    execStarted: (text: string) => said.push(text.length, text.at(-1)),
    execEnded: (code: number) => said.push(`exit ${code}`),
    append: ({
      source,
      stream,
      timeMs,
      data,
    }: {
      source: string;
      stream: string;
      timeMs: number;
      data: Buffer;
    }) => said.push(`${source} ${stream} ${data}`, Math.abs(timeMs - Date.now()) < 60_000),
  } as unknown as Parameters<typeof logExecStart>[0];
  logExecStart(log, ['x'.repeat(16_382), 'y']);
  logExecStart(log, ['x'.repeat(16_383), 'y']);
  t.same(said.splice(0), [16_384, 'y', 16_385, '…']);
  const received: unknown[] = [];
  const events = logExecEvents(log, {
    started: (pid) => received.push(`started ${pid}`),
    output: (stream, chunk) => received.push(`${stream} ${chunk}`),
    exit: ({ exitCode }) => received.push(`exit ${exitCode}`),
    drain: () => received.push('drain'),
  });
  events.started?.(7);
  events.output('stderr', Buffer.from('e'));
  // A character that never becomes complete.
  events.output('stdout', Buffer.of(0x6f, 0xc3));
  events.drain?.();
  events.exit({ exitCode: 3, durationMs: 1 });
  t.same(received, ['started 7', 'stderr e', 'stdout o\ufffd', 'drain', 'exit 3']);
  t.same(said, ['exec stderr e', true, 'exec stdout o', true, 'exec stdout \ufffd', true, 'exit 3']);
  const silent = logExecEvents(log, { output: () => undefined, exit: () => undefined });
  silent.started?.(7);
  silent.drain?.();
  t.end();
});

t.test('after a crash the log has the exit of the commands that ran', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'sandboxd-exec-log-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const openStore = async (alive: readonly string[]) => {
    const store = new LogStore({
      dir,
      maxBytes: 64 * MIB,
      retentionMs: 1e6,
      retentionBytes: 1e9,
      log: pino({ level: 'silent' }),
    });
    await store.start(new Set(alive));
    const log = alive.includes(ID) ? await store.open(ID) : undefined;
    const texts = async () => (await store.read(ID, { since: 0 }))?.records.map(({ text }) => text);
    return { store, log, texts };
  };
  const first = await openStore([ID]);
  const events = [['sleep', '1'], ['sleep', '2'], ['true']].map((cmd) => {
    if (first.log === undefined) throw new Error('no log');
    logExecStart(first.log, cmd);
    return logExecEvents(first.log, { output: () => undefined, exit: () => undefined });
  });
  events[2]?.exit({ exitCode: 0, durationMs: 1 });
  events[0]?.output('stdout', Buffer.from('something'));
  await first.log?.flush();
  // As after kill -9: nothing was closed.
  const all = ['exec: sleep 1', 'exec: sleep 2', 'exec: true', 'exit 0', 'something', 'exit -1', 'exit -1'];
  const second = await openStore([ID]);
  t.same(await second.texts(), all, 'that of a sandbox that is adopted');
  if (second.log !== undefined) logExecStart(second.log, ['sleep', '3']);
  await second.log?.flush();
  const third = await openStore([]);
  t.same(await third.texts(), [...all, 'exec: sleep 3', 'exit -1'], 'and of one that is gone');
  const fourth = await openStore([ID]);
  t.same(await fourth.texts(), [...all, 'exec: sleep 3', 'exit -1'], 'once');
  for (const { store } of [first, second, third, fourth]) await store.stop();
});

t.test('a tail is the end of what was pushed', (t) => {
  const whole = new OutputTail(4);
  whole.push(Buffer.of(0x80, 0x41));
  t.same([...whole.take()], [0x80, 0x41], 'where nothing is missing nothing is trimmed');
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 20, size: 'max' }), { maxLength: 40, size: 'max' }),
      fc.integer({ min: 1, max: 30 }),
      (pieces, most) => {
        const tail = new OutputTail(most);
        for (const piece of pieces) tail.push(Buffer.from(piece));
        const all = Buffer.concat(pieces);
        const retained = tail.take();
        const trimmed = Math.min(most, all.length) - retained.length;
        t.ok(all.subarray(all.length - retained.length).equals(retained) && trimmed <= 3);
        t.equal(tail.omittedBytes, all.length - retained.length);
      },
    ),
  );
  t.end();
});
