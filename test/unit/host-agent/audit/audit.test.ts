// The audit trail on disk: tampering is distinguished from the effects of a crash.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import t, { type Test } from 'tap';
import { type AuditEntry, AuditTrail } from '../../../../host-agent/src/audit/index.ts';
import { until } from '../../../support/until.ts';
import { entry, log, open } from './support.ts';

const SMALL = 8 * 2048;

/** The trail of a stopped daemon, with some lines. */
async function written(t: Test, count = 10, maxBytes = 2 ** 30) {
  const trail = await open(t, maxBytes);
  const writer = trail.start();
  for (let n = 0; n < count; n++) writer.write(entry(n));
  await writer.close();
  const [path = ''] = trail.files();
  const change = (edit: (lines: string[]) => string[]) => {
    const kept = readFileSync(path, 'utf8').split('\n').slice(0, -1);
    writeFileSync(path, `${edit(kept).join('\n')}\n`);
  };
  return { ...trail, path, change };
}

t.test('a trail is whole over starts, and each line is JSON with who, what and when', async (t) => {
  const { start, lines, verify } = await open(t);
  for (let round = 0; round < 3; round++) {
    const writer = start();
    writer.write(entry(round, { tenant: 'acme', ids: ['sbx_0123456789abc'] } as Partial<AuditEntry>));
    await writer.close();
  }
  t.match(await verify(), { lines: 9, files: 1, problems: [], notes: [] });
  const parsed = lines().map((line) => JSON.parse(line));
  t.same(
    parsed.map(({ event }) => event),
    [
      ...['started', 'request', 'stopped'],
      ...['started', 'request', 'stopped'],
      ...['started', 'request', 'stopped'],
    ],
  );
  t.same(
    parsed.map(({ seq }) => seq),
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
  );
  t.match(parsed[1], { at: /^\d{4}-.*Z$/, key: 'ci', tenant: 'acme', ids: ['sbx_0123456789abc'] });
});

t.test('nothing there is nothing wrong', async (t) => {
  const { verify } = await open(t);
  t.match(await verify(), { lines: 0, files: 0, problems: [] });
});

const BROKEN: Readonly<Record<string, { edit: (lines: string[]) => string[]; problem: RegExp }>> = {
  'a changed word': {
    edit: (lines) =>
      lines.map((line, at) => (at === 4 ? line.replace('"status":200', '"status":403') : line)),
    problem: /the line behind number 4 was changed/,
  },
  'a changed hash': {
    edit: (lines) =>
      lines.map((line, at) =>
        at === 4 ? line.replace(/[0-9a-f]"\}$/, (end) => (end.startsWith('0') ? '1"}' : '0"}')) : line,
      ),
    problem: /behind number 4 was changed/,
  },
  'a missing line': {
    edit: (lines) => lines.filter((_, at) => at !== 4),
    problem: /lines 5 to 5 are missing/,
  },
  'missing lines at the beginning': {
    edit: (lines) => lines.slice(3),
    problem: /lines 1 to 3 are missing at the beginning/,
  },
  'missing lines at the end': {
    edit: (lines) => lines.slice(0, -3),
    problem: /lines 10 to 12 at least are missing at the end/,
  },
  'exchanged lines': {
    edit: (lines) => [...lines.slice(0, 4), lines[5] ?? '', lines[4] ?? '', ...lines.slice(6)],
    problem: /lines 5 to 5 are missing/,
  },
  'a line twice': {
    edit: (lines) => [...lines.slice(0, 5), lines[4] ?? '', ...lines.slice(5)],
    problem: /line 5 comes behind line 5/,
  },
  'a line of somebody else': {
    edit: (lines) => [...lines.slice(0, 4), '{"event":"request"}', ...lines.slice(4)],
    problem: /is not of the trail/,
  },
  'nothing left': { edit: () => [], problem: /was changed, or is none|missing at the end/ },
};

for (const [name, { edit, problem }] of Object.entries(BROKEN)) {
  t.test(`found: ${name}`, async (t) => {
    const { change, verify, start } = await written(t);
    t.same((await verify()).problems, []);
    change(edit);
    t.match((await verify()).problems.join('; '), problem);
    const next = start();
    next.write(entry(99));
    await next.close();
    t.not((await verify()).problems.length, 0, 'the next start does not hide it');
  });
}

t.test('verify finds a trail that was rewritten with matching hashes', async (t) => {
  const { dir, path, verify } = await written(t);
  const other = await written(t);
  writeFileSync(path, readFileSync(other.path));
  t.match((await verify()).problems.join(), /not the one that the registry knows/);
  t.ok(existsSync(dir));
});

t.test('found: a whole file that is gone', async (t) => {
  const { files, verify } = await written(t, 30, SMALL);
  t.ok(files().length > 3);
  t.same((await verify()).problems, []);
  rmSync(files()[1] ?? '');
  t.match((await verify()).problems.join(), /are missing/);
});

t.test('a line that a crash left torn is cut off, and the next one says so', async (t) => {
  const { path, verify, start, lines } = await written(t);
  appendFileSync(path, '{"seq":13,"at":"20');
  const found = await verify();
  t.match([found.problems, found.notes], [[], [/ends with 18 bytes of a line that is not whole: a crash/]]);
  const next = start();
  next.write(entry(1));
  await next.close();
  t.match(JSON.parse(lines()[12] ?? ''), { event: 'started', torn_bytes: 18, seq: 13 });
  const after = await verify();
  t.match([after.problems, after.notes], [[], [/a crash left 18 bytes/]]);
});

t.test('a torn line in the middle is no crash', async (t) => {
  const { files, verify } = await written(t, 30, SMALL);
  const [first = ''] = files();
  appendFileSync(first, '{"seq"');
  t.match((await verify()).problems.join(), /after its last line are not a line, and another file follows/);
});

t.test('a daemon that is killed has lost nothing that it wrote', async (t) => {
  const { store, dir, anchors, start, verify, lines } = await open(t);
  t.ok(store);
  const room = resolve(import.meta.dirname, '../../../../host-agent/src/audit/index.ts');
  const program = `
    import { AuditTrail } from ${JSON.stringify(room)};
    const log = { error() {} };
    const trail = new AuditTrail({ dir: ${JSON.stringify(dir)}, maxBytes: 2 ** 30, anchors: { latest() {}, async put() {} }, log });
    for (let n = 0; ; n++) {
      trail.write({ event: 'request', request: 'req_' + n, address: 'x', key_id: 'c1', route: 'createSandbox', made: ['x'], decision: 'allowed', status: 201, ms: 1 });
      if (n % 100 === 0) process.stdout.write(n + '\\n');
      if (n % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
    }`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let told = '';
  child.stdout.on('data', (bytes) => {
    told += bytes;
  });
  await until(() => told.split('\n').length > 5, 'lines');
  child.kill('SIGKILL');
  await once(child, 'close');
  const count = Number(told.trim().split('\n').at(-1));
  const next = start();
  await next.close();
  t.same((await verify()).problems, []);
  t.ok(lines().some((line) => line.includes(`"req_${count}"`)));
  t.ok(anchors);
});

t.test('files are rotated, the oldest go, and that is no fault', async (t) => {
  const { files, verify, start } = await open(t, SMALL);
  const writer = start();
  for (let n = 0; n < 200; n++) writer.write(entry(n));
  await until(() => files().length <= 9, 'the end of old files');
  await writer.close();
  const { problems, first } = await verify();
  t.same(problems, []);
  t.ok((first?.seq ?? 0) > 1);
  const again = start();
  await again.close();
  t.same((await verify()).problems, []);
  rmSync(files()[0] ?? '');
  t.match((await verify()).problems.join(), /are missing at the beginning/, 'one that rotation did not take');
});

t.test('lines that a full disk lost are counted in the next line that can be written', async (t) => {
  const { dir, anchors, files, lines, verify } = await open(t);
  let isFull = false;
  const { toISOString } = Date.prototype;
  t.intercept(Date.prototype, 'toISOString', {
    value(this: Date) {
      if (isFull) throw new Error('no space left on the disk');
      return toISOString.call(this);
    },
  });
  const writer = new AuditTrail({ dir, maxBytes: 2 ** 30, anchors, log });
  writer.write(entry(1));
  const [path = ''] = files();
  const size = readFileSync(path).length;
  isFull = true;
  writer.write(entry(2));
  writer.write(entry(2));
  t.equal(readFileSync(path).length, size);
  isFull = false;
  writer.write(entry(3));
  await writer.close();
  t.match(lines().join('\n'), /"event":"unwritten","lines":2/);
  t.same((await verify()).problems, []);
  truncateSync(path, 0);
  t.not((await verify()).problems.length, 0);
});
