// Small modules of the host agent: the log, the directory lock, JSON error positions, body collection.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { findJsonError } from '../../../../host-agent/src/http/input/json-body.ts';
import { BodyCollector } from '../../../../host-agent/src/http/server/hijack.ts';
import { readDescriptorLimit, shareDescriptors } from '../../../../host-agent/src/lib/descriptors.ts';
import { lockDirectory } from '../../../../host-agent/src/lib/instance-lock.ts';
import { createLogger } from '../../../../host-agent/src/lib/logger.ts';
import { ensurePrivateDirectory } from '../../../../host-agent/src/lib/private-directory.ts';
import { isRunning, readStartTicks } from '../../../../host-agent/src/lib/proc.ts';

t.test('log lines are JSON, or readable when asked for', async (t) => {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const json = createLogger({ level: 'info', format: 'json', destination });
  json.debug('not shown');
  json
    .child({ requestId: 'r1', sandbox: 's1' })
    .error({ err: new Error('outer', { cause: new Error('inner') }) }, 'bad');
  t.equal(lines.length, 1);
  const line = JSON.parse(lines[0]!);
  t.match(line, { level: 'error', requestId: 'r1', sandbox: 's1', msg: 'bad', time: /^\d{4}-.*Z$/ });
  t.match(line.err.message, 'outer: inner');
  const key = `sbk_${'aB3-_x9Z'.repeat(4)}`;
  json.info({ path: `/images/${key}`, err: new Error(`no ${key}`) }, `what is ${key}?`);
  t.match([lines.length, lines[1]], [2, /what is sbk_…\?/]);
  t.notMatch(lines[1], key);
});

t.test('a process runs until its last thread has ended', async (t) => {
  // Its first thread exits, as in a process that is being killed; the other thread keeps its files open.
  const source = `#include <pthread.h>
    #include <unistd.h>
    static void *rest(void *arg) { (void)arg; char c; return read(0, &c, 1) < 0 ? arg : NULL; }
    int main(void) { pthread_t t; pthread_create(&t, NULL, rest, NULL); pthread_exit(NULL); }`;
  const dir = mkdtempSync(join(tmpdir(), 'threads-test-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  execFileSync('gcc', ['-x', 'c', '-pthread', '-o', join(dir, 'threads'), '-'], { input: source });
  const child = spawn(join(dir, 'threads'), { stdio: ['pipe', 'ignore', 'inherit'] });
  const pid = child.pid ?? 0;
  const state = () => /^State:\s+(\S)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  for (let tries = 0; tries < 500 && state() !== 'Z'; tries++) await sleep(10);
  t.equal(state(), 'Z', 'the kernel calls it a zombie');
  const startTicks = readStartTicks(pid) ?? -1;
  t.ok(isRunning({ pid, startTicks }), 'it runs');
  const ended = once(child, 'exit');
  child.stdin.end();
  await ended;
  t.notOk(isRunning({ pid, startTicks }));
});

t.test('a directory is held by one at a time', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'lock-test-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const first = await lockDirectory(dir);
  await t.rejects(lockDirectory(`${dir}/../${basename(dir)}`), {
    code: 'conflict',
    message: /is in use by another sandboxd/,
  });
  await first[Symbol.asyncDispose]();
  t.equal(statSync(join(dir, 'sandboxd.lock')).mode & 0o777, 0o600);
  const stranger = spawn('flock', ['--no-fork', dir, 'sh', '-c', 'echo locked; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => stranger.kill());
  await once(stranger.stdout, 'data');
  await (await lockDirectory(dir))[Symbol.asyncDispose]();
  rmSync(join(dir, 'sandboxd.lock'));
  symlinkSync('/etc/hostname', join(dir, 'sandboxd.lock'));
  await t.rejects(lockDirectory(dir), { message: /^cannot lock directory .*: ELOOP$/ });
});

t.test('directories of the daemon are closed to other users', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'private-test-'));
  t.teardown(() => rmSync(root, { recursive: true }));
  const modeOf = (path: string) => statSync(path).mode & 0o777;
  const made = join(root, 'made/on/demand');
  t.equal(await ensurePrivateDirectory(made), undefined);
  t.same([made, join(root, 'made')].map(modeOf), [0o700, 0o700]);
  chmodSync(made, 0o755);
  t.match(await ensurePrivateDirectory(made), /^directory .* had mode 0755, .* it has 0700 now$/, 'empty');
  writeFileSync(join(made, 'state.lmdb'), '');
  chmodSync(made, 0o750);
  t.match(await ensurePrivateDirectory(made), /had mode 0750/, 'one that a daemon used');
  t.equal(modeOf(made), 0o700);
  for (const [mode, names] of [
    [0o777, ['state.lmdb']],
    [0o755, ['lock', 'etc']],
    [0o1777, ['x']],
  ] as const) {
    const dir = mkdtempSync(join(root, 'other-'));
    for (const name of names) writeFileSync(join(dir, name), '');
    chmodSync(dir, mode);
    await t.rejects(ensurePrivateDirectory(dir), {
      code: 'conflict',
      message: /^directory .* has mode \d+, so that others can enter it; choose one that is the daemon's own/,
    });
    t.equal(statSync(dir).mode & 0o7777, mode, 'it is left as it was');
  }
  const theirs = mkdtempSync(join(root, 'theirs-'));
  if (process.getuid?.() === 0) {
    chownSync(theirs, 65_534, 65_534);
    await t.rejects(ensurePrivateDirectory(theirs), { message: /belongs to user 65534/ });
  }
  await t.rejects(ensurePrivateDirectory('/dev/null/x'), {
    code: 'internal',
    message: /^cannot make directory \/dev\/null\/x: /,
  });
});

t.test('the place of a JSON error is where the text stops being a beginning of JSON', async (t) => {
  const starts = (text: string) => {
    try {
      JSON.parse(text);
      return true;
    } catch {
      return false;
    }
  };
  fc.assert(
    fc.property(
      fc.json(),
      fc.nat(),
      fc.constantFrom(';', '}', ']', ',', ':', '"', 'x', '1', ''),
      (json, at, char) => {
        const place = at % (json.length + 1);
        const broken = json.slice(0, place) + char + json.slice(place + 1);
        if (starts(broken)) return true;
        const { line, column } = findJsonError(broken);
        const lines = broken.split('\n');
        return line >= 1 && line <= lines.length && column >= 1 && column <= lines[line - 1]!.length + 1;
      },
    ),
    { numRuns: 2000 },
  );
  const cases: [string, number, number][] = [
    ['', 1, 1],
    ['{"a":1,\n\n "b" 2}', 3, 6],
    ['[1,2', 1, 5],
    ['[1 2]', 1, 4],
    ['nul', 1, 1],
    ['{"a":"\\x"}', 1, 6],
    ['-', 1, 1],
    ['[]]', 1, 3],
  ];
  for (const [text, line, column] of cases)
    t.match(findJsonError(text), { line, column }, JSON.stringify(text));
});

t.test('a body is collected whatever its cuts, and what is behind it is left alone', async (t) => {
  const anyBody = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));
  const chunk = (bytes: Buffer) =>
    Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
  fc.assert(
    fc.property(
      fc.array(anyBody),
      anyBody,
      fc.boolean(),
      fc.array(fc.nat()),
      (parts, behind, isChunked, cuts) => {
        const body = Buffer.concat(parts);
        const encoded = isChunked
          ? Buffer.concat([...parts.filter(({ length }) => length > 0).map(chunk), Buffer.from('0\r\n\r\n')])
          : body;
        const headers = isChunked
          ? { 'transfer-encoding': 'chunked' }
          : { 'content-length': String(body.length) };
        const bytes = Buffer.concat([encoded, behind]);
        const collector = new BodyCollector(headers, 2 ** 20);
        const left: Buffer[] = [];
        const places = [
          0,
          ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b),
          bytes.length,
        ];
        for (let i = 1; i < places.length; i++)
          left.push(collector.push(bytes.subarray(places[i - 1], places[i])));
        return collector.isDone && collector.body.equals(body) && Buffer.concat(left).equals(behind);
      },
    ),
  );
  const refused: [IncomingHttpHeaders, string, RegExp][] = [
    [{ 'content-length': '11' }, '', /over 10 bytes/],
    [{ 'transfer-encoding': 'chunked' }, 'b\r\n', /over 10 bytes/],
    [{ 'transfer-encoding': 'chunked' }, '6\r\nabcdef\r\n6\r\n', /over 10 bytes/],
    [{ 'transfer-encoding': 'chunked' }, '1\r\nab\r\n', /longer than its size/],
    [{ 'transfer-encoding': 'chunked' }, '1\n', /CR LF/],
    [{ 'transfer-encoding': 'chunked' }, 'x'.repeat(5000), /too long/],
    [{ 'transfer-encoding': 'chunked' }, `0\r\n${'a: b\r\n'.repeat(70)}`, /too many trailers/],
    [{ 'transfer-encoding': 'gzip, chunked' }, '', /use chunked/],
  ];
  for (const [headers, bytes, pattern] of refused) {
    t.throws(() => new BodyCollector(headers, 10).push(Buffer.from(bytes)), { message: pattern });
  }
});

t.test('descriptors are shared out between clients and sandboxes', async (t) => {
  const wanted = { connections: 4096, sandboxes: 1000 };
  t.same(shareDescriptors(1_048_576, wanted), wanted);
  t.same(shareDescriptors(Number.POSITIVE_INFINITY, wanted), wanted);
  t.same(shareDescriptors(1024, wanted), { connections: 448, sandboxes: 56 });
  t.same(shareDescriptors(64, wanted), { connections: 1, sandboxes: 1 }, 'never nothing');
  for (const limit of [256, 1024, 4096, 20_000, 65_536]) {
    const { connections, sandboxes } = shareDescriptors(limit, wanted);
    t.ok(connections + sandboxes * 8 + 100 <= limit, `${connections} and ${sandboxes} of ${limit}`);
  }
  t.ok(readDescriptorLimit() >= 64);
  t.equal(
    readDescriptorLimit('Max open files            1024                 4096                 files'),
    1024,
  );
  t.equal(
    readDescriptorLimit('Max open files            unlimited            unlimited            files'),
    Number.POSITIVE_INFINITY,
  );
});
