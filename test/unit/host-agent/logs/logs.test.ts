// Durable logs without guests: records, pages, cursors, rotation, repair, a full disk, retention.
import { execFileSync } from 'node:child_process';
import { appendFile, mkdtemp, readdir, readFile, rm, truncate, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { joinText, NOTHING } from '../../../../host-agent/src/lib/utf8-joiner.ts';
import { LogStore, type LogStoreOptions } from '../../../../host-agent/src/logs/index.ts';
import { readLog } from '../../../../host-agent/src/logs/read-log.ts';
import { decodeRecord, encodeRecord, type NewRecord } from '../../../../host-agent/src/logs/record.ts';

const ID = 'sbx_0123456789abc';
const MIB = 2 ** 20;

async function makeStore(t: Test, options: Partial<LogStoreOptions> = {}) {
  const dir = await mkdtemp(join(tmpdir(), 'sandboxd-logs-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const lines: { level: number; msg: string }[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const usual = { dir, maxBytes: 64 * MIB, retentionMs: 1000_000, retentionBytes: 2 ** 40, log };
  const open = (changes = {}) => new LogStore({ ...usual, ...options, ...changes });
  const store = open();
  await store.start(new Set());
  return { dir, store, lines, reopen: open };
}

const out = (text: string | Buffer, source: 'service' | 'exec' = 'service'): NewRecord => ({
  source,
  stream: 'stdout',
  timeMs: 1,
  data: Buffer.from(text),
});

async function readAll(store: LogStore, since = 0) {
  const texts: string[] = [];
  for (let offset = since; ; ) {
    const page = await store.read(ID, { since: offset });
    texts.push(...(page?.records ?? []).map(({ text }) => text));
    if (page === undefined || page.nextOffset === offset) return { texts, end: offset };
    offset = page.nextOffset;
  }
}

t.test('records come back as they were, wherever a page is cut', async (t) => {
  const { store } = await makeStore(t);
  t.equal(await store.read(ID, {}), undefined, 'no log yet');
  const log = await store.open(ID);
  t.same(await store.read(ID, {}), { nextOffset: 0, records: [] });
  const texts = Array.from({ length: 12_000 }, (_, n) => `line ${n} ${'é'.repeat(n % 50)}\n`);
  const cursors: number[] = [];
  for (const [n, text] of texts.entries()) log?.append(out(text, n % 2 === 0 ? 'service' : 'exec'));
  t.same((await readAll(store)).texts, texts);
  const first = await store.read(ID, { since: 0 });
  t.equal(first?.records.length, 5000, 'a page has so many records at most');
  const exec = await store.read(ID, { since: 0, source: 'exec' });
  t.ok(exec?.records.every(({ source }) => source === 'exec') && exec.records.length === 5000);
  cursors.push(first?.nextOffset ?? 0);
  const tail = await store.read(ID, {});
  const tailBytes = tail?.records.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0) ?? 0;
  t.equal(tail?.records.at(-1)?.text, texts.at(-1));
  t.ok(tailBytes > 30_000 && tailBytes <= 65_536, `${tailBytes} bytes of tail`);
  const end = (await readAll(store)).end;
  t.equal(tail?.nextOffset, end);
  t.same(await store.read(ID, { since: end + 1000 }), { nextOffset: end, records: [] });
  // An offset within a record moves to the next record.
  const between = await store.read(ID, { since: cursors[0] === undefined ? 0 : cursors[0] - 3 });
  t.equal(between?.records[0]?.text, texts[5000]);
  await store.stop();
});

t.test('text is cut between characters only', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      fc.array(fc.integer({ min: 0, max: 200 }), { maxLength: 8 }),
      async (text, cuts) => {
        const bytes = Buffer.from(text);
        const places = [
          0,
          ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b),
          bytes.length,
        ];
        let held = NOTHING;
        let shown = '';
        for (let n = 1; n < places.length; n++) {
          const joined = joinText(held, bytes.subarray(places[n - 1], places[n]));
          held = joined.held;
          shown += joined.whole.toString();
        }
        t.equal(shown, text);
        t.equal(held.length, 0);
      },
    ),
    { numRuns: 200 },
  );
  // Bytes that are not UTF-8 are passed on as well.
  for (const junk of [[0x80, 0x80], [0xff, 0xfe], [0xc0], [0xf8, 0x88]]) {
    t.same(joinText(NOTHING, Buffer.from(junk)).whole, Buffer.from(junk), JSON.stringify(junk));
  }
});

t.test('any byte of a record that is wrong makes it none', async (t) => {
  const position = {
    ring: '0011223344556677',
    nextSeq: 9,
    held: { stdout: Buffer.from([0xc3]), stderr: NOTHING },
  };
  const bytes = Buffer.concat(encodeRecord(out('hello'), position, 1000));
  t.match(decodeRecord(bytes, 0, 1000), { text: 'hello', position, totalBytes: bytes.length });
  t.equal(decodeRecord(bytes, 0, 1001), undefined, 'at another offset');
  for (let at = 0; at < bytes.length - 4; at++) {
    const broken = Buffer.from(bytes);
    broken[at] = (broken[at] ?? 0) ^ 0x10;
    if (decodeRecord(broken, 0, 1000) !== undefined) t.fail(`byte ${at}`);
  }
});

t.test('a torn end is cut off, and the log goes on from the position of its last record', async (t) => {
  const { dir, store, reopen } = await makeStore(t);
  const log = await store.open(ID);
  const at = (nextSeq: number) => ({
    ring: 'aabbccddeeff0011',
    nextSeq,
    held: { stdout: Buffer.from([0xe2, 0x82]), stderr: NOTHING },
  });
  log?.append(out('one\n'), at(1));
  log?.append(out('two\n'), at(2));
  log?.event('exec', 'exec: true');
  await log?.flush();
  const [name = ''] = (await readdir(join(dir, ID))).filter((file) => file.endsWith('.log'));
  const path = join(dir, ID, name);
  const good = (await readFile(path)).length;
  for (const torn of [
    Buffer.from('x'),
    Buffer.alloc(5000, 7),
    Buffer.concat(encodeRecord(out('three'), at(3), good)).subarray(0, 50),
  ]) {
    await truncate(path, good);
    await appendFile(path, torn);
    const next = reopen();
    const again = await next.open(ID);
    t.match(again?.position, at(2), 'exec records carry it too');
    t.equal(again?.writtenEnd, good);
    t.same((await readAll(next)).texts, ['one\n', 'two\n', 'exec: true']);
  }
  const next = reopen();
  const again = await next.open(ID);
  again?.append(out('three\n'), at(3));
  t.same((await readAll(next, good)).texts, ['three\n']);
  await next.stop();
});

t.test('rotation keeps the limit and the cursors, and one event says what is gone', async (t) => {
  const { dir, store } = await makeStore(t, { maxBytes: MIB });
  const log = await store.open(ID);
  const line = (n: number): string => `${n} ${'x'.repeat(1000)}\n`;
  let cursor = 0;
  for (let n = 0; n < 4000; n++) {
    log?.append(out(line(n)));
    if (n % 100 === 99) await log?.flush();
    if (n === 3899) cursor = (await readAll(store, log?.writtenEnd)).end;
  }
  await log?.flush();
  const files = await readdir(join(dir, ID));
  const sizes = await Promise.all(files.map(async (file) => (await readFile(join(dir, ID, file))).length));
  t.ok(sizes.reduce((a, b) => a + b, 0) <= MIB + 200_000, `${sizes}`);
  const { texts } = await readAll(store);
  t.match(texts[0], /the oldest \d+ bytes of this log were dropped/);
  t.equal(texts.filter((text) => text.includes('dropped')).length, 1);
  t.equal(texts.at(-1), line(3999));
  t.ok(texts.length > 700);
  t.same(
    (await readAll(store, cursor)).texts,
    Array.from({ length: 100 }, (_, n) => line(3900 + n)),
  );
  const tail = await store.read(ID, {});
  t.equal(tail?.records.at(-1)?.text, line(3999));
  await store.stop();
});

t.test('a command never waits: what the disk is too slow for is counted', async (t) => {
  const { store } = await makeStore(t);
  const log = await store.open(ID);
  const chunk = Buffer.alloc(65_536, 'y');
  // Nothing is written before this turn of the event loop ends.
  for (let n = 0; n < 200; n++) log?.append(out(chunk, 'exec'));
  await log?.flush();
  log?.append(out('after\n', 'exec'));
  const { texts } = await readAll(store);
  const dropped = Number(/^(\d+) bytes of output were not logged/.exec(texts.at(-2) ?? '')?.[1]);
  const kept = texts.filter((text) => text.startsWith('y')).length;
  t.equal(texts.at(-1), 'after\n');
  t.ok(kept > 100 && kept < 200);
  t.equal(kept * 65_536 + dropped, 200 * 65_536);
  await store.stop();
});

t.test('who has more than fits waits until some of it is written, or never will be', async (t) => {
  const { store } = await makeStore(t);
  const log = await store.open(ID);
  const called: string[] = [];
  const fill = () => {
    while (log?.hasCapacity) log.append(out(Buffer.alloc(65_536, 'y')));
  };
  log?.whenWritable(() => called.push('at once'));
  fill();
  log?.whenWritable(() => called.push('written'));
  t.same(called, ['at once']);
  await log?.flush();
  t.same(called, ['at once', 'written']);
  fill();
  log?.whenWritable(() => called.push('closed'));
  await store.stop();
  t.same(called.slice(2), ['closed']);
  log?.whenWritable(() => called.push('no more'));
  t.same(called.slice(3), ['no more']);
});

t.test('a full disk: one event, one warning, and nothing else', async (t) => {
  const { dir, store, lines } = await makeStore(t);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m,mode=700', 'none', dir]);
  } catch {
    t.comment('not tested: no right to mount');
    return;
  }
  t.teardown(() => execFileSync('umount', [dir]));
  const other = ID.replace('0', '1');
  const [log, second] = [await store.open(ID), await store.open(other)];
  second?.append(out('small\n'));
  for (let n = 0; n < 60; n++) {
    log?.append(out(Buffer.alloc(65_536, n)));
    await log?.flush();
  }
  t.equal(log?.hasFailed, true);
  const { texts } = await readAll(store);
  t.ok(texts.length > 20, `${texts.length} records`);
  t.match(texts.at(-1), /^logging stopped: the host's disk is full; \d+ bytes were not logged$/);
  t.equal(texts.filter((text) => text.startsWith('logging stopped')).length, 1);
  for (let n = 0; n < 60; n++) second?.append(out(Buffer.alloc(65_536, n)));
  await second?.flush();
  t.equal(second?.hasFailed, true);
  const warnings = lines.filter(({ level }) => level >= 40);
  t.equal(warnings.length, 1, 'one warning for all');
  t.match(warnings[0]?.msg, /ENOSPC/);
  log?.append(out('more'));
  let hasCapacity = false;
  log?.whenWritable(() => {
    hasCapacity = true;
  });
  t.ok(hasCapacity, 'nobody waits for it');
  t.same((await readAll(store)).texts, texts, 'what was there is still there');
  await store.end(ID);
  t.same((await readAll(store)).texts, texts);
  await store.stop();
});

t.test('logs of sandboxes that are gone are kept for a while', async (t) => {
  const { dir, store, reopen } = await makeStore(t, { retentionMs: 60_000 });
  const log = await store.open(ID);
  log?.append(out('kept\n'));
  await store.end(ID);
  t.match((await store.read(ID, {}))?.records, [{ text: 'kept\n' }]);
  const other = 'sbx_zzzzzzzzzzzzz'.replaceAll('z', 'v');
  await store.open(other);
  await store.stop();

  const next = reopen();
  await next.start(new Set());
  t.match((await next.read(ID, {}))?.records, [{ text: 'kept\n' }], 'not old enough');
  t.ok(
    (await readdir(join(dir, other))).includes('ended'),
    'one of a sandbox that nobody has any more has ended',
  );
  await utimes(join(dir, ID, 'ended'), 0, 0);
  await next.stop();
  const last = reopen();
  await last.start(new Set());
  t.equal(await last.read(ID, {}), undefined);
  await last.remove(other);
  t.same(await readdir(dir), []);
  await last.stop();
});

t.test('the log of a sandbox that lives on is not ended by a restart', async (t) => {
  const { dir, store, reopen } = await makeStore(t);
  await store.open(ID);
  await store.stop();
  const next = reopen();
  await next.start(new Set([ID]));
  t.notOk((await readdir(join(dir, ID))).includes('ended'));
  t.ok(await readLog(join(dir, ID), {}));
  await next.stop();
});

t.test('logs of sandboxes that are gone take no more than they may together', async (t) => {
  const { dir, store, reopen } = await makeStore(t, { retentionBytes: 384 * 1024 });
  const ids = Array.from('abcdefgh', (letter) => `sbx_${letter.repeat(13)}`);
  const alive = `sbx_${'v'.repeat(13)}`;
  (await store.open(alive))?.append(out('y'.repeat(60_000)));
  for (const [at, id] of ids.entries()) {
    (await store.open(id))?.append(out('x'.repeat(50_000)));
    await store.end(id);
    const endedS = Date.now() / 1000 - 100 + at;
    await utimes(join(dir, id, 'ended'), endedS, endedS).catch(() => undefined);
  }
  const kept = async () => (await readdir(dir)).filter((id) => id !== alive).sort();
  const left = await kept();
  t.ok(left.length >= 3 && left.length <= 5, `${left.length} logs of some 84 KiB each are left`);
  t.same(left, ids.slice(-left.length), 'the newest');
  t.ok((await readdir(dir)).includes(alive), 'one of a sandbox that is there does not count');
  await store.stop();
  const next = reopen({ retentionBytes: 200 * 1024 });
  await next.start(new Set([alive]));
  t.same(await kept(), ids.slice(-2));
  await next.stop();
});

t.test('small logs count for their files, which are what they use up', async (t) => {
  const { dir, store } = await makeStore(t, { retentionBytes: 200 * 1024 });
  for (const digit of '0123456789') {
    const id = `sbx_${digit.repeat(13)}`;
    (await store.open(id))?.append(out('x'));
    await store.end(id);
  }
  const left = await readdir(dir);
  t.ok(left.length >= 1 && left.length <= 5, `${left.length} are left`);
  await store.stop();
});

t.test('a tenant that leaves many logs pushes out its own, and no other’s', async (t) => {
  const { dir, store } = await makeStore(t, { retentionBytes: 400 * 1024 });
  const ids = Array.from('0123456789', (digit) => `sbx_${digit.repeat(13)}`);
  const [quiet = '', operators = '', ...loud] = ids;
  const tenants = new Map([[quiet, 'quiet'], ...loud.map((id) => [id, 'loud'] as const)]);
  for (const [at, id] of [quiet, operators, ...loud].entries()) {
    (await store.open(id, tenants.get(id)))?.append(out('x'.repeat(50_000)));
    await store.end(id);
    const endedS = Date.now() / 1000 - 100 + at;
    await utimes(join(dir, id, 'ended'), endedS, endedS).catch(() => undefined);
  }
  const left = (await readdir(dir)).sort();
  t.same(left.slice(0, 2), [quiet, operators], 'the oldest of all, of those who have little');
  t.ok(left.length > 2 && left.length <= 5);
  t.same(left.slice(2), loud.slice(2 - left.length), 'of the loud one the newest');
  await store.stop();
});
