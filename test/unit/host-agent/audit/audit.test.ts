// The audit trail on disk: what breaks its chain on purpose is told from what a crash leaves.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import {
  ANCHOR_TABLE,
  type AuditEntry,
  AuditTrail,
  type Link,
  type RequestEntry,
  verifyTrail,
} from '../../../../host-agent/src/audit/index.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { MadeTimers } from '../../../support/made-timers.ts';
import { until } from '../../../support/until.ts';

const log = pino({ level: 'silent' });
const SMALL = 8 * 2048;

const entry = (n: number, more: Partial<AuditEntry> = {}): AuditEntry =>
  ({
    event: 'request',
    request: `req_${n}`,
    address: '192.0.2.1',
    key: 'ci',
    key_id: 'c1',
    route: 'exec',
    operation: 'exec',
    decision: 'allowed',
    status: 200,
    ms: n,
    ...more,
  }) as AuditEntry;

async function open(t: Test, maxBytes = 2 ** 30) {
  const root = mkdtempSync(join(tmpdir(), 'audit-'));
  const store = await Store.open(join(root, 'state.lmdb'));
  t.teardown(async () => {
    await store.close();
    rmSync(root, { recursive: true });
  });
  const anchors = store.table<Link>(ANCHOR_TABLE);
  const dir = join(root, 'audit');
  const start = () => new AuditTrail({ dir, maxBytes, anchors, log });
  const files = () =>
    readdirSync(dir)
      .sort()
      .map((name) => join(dir, name));
  const lines = () => files().flatMap((path) => readFileSync(path, 'utf8').split('\n').slice(0, -1));
  return { dir, anchors, start, files, lines, store, verify: () => verifyTrail(dir, anchors) };
}

/** A trail of a daemon that stopped, with some lines. */
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
    problem: /is none of the trail/,
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

t.test('found: a trail that was written anew, with hashes that fit each other', async (t) => {
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
  t.match((await verify()).problems.join(), /behind its last line are no line, and another file follows/);
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

t.test('strangers do not push out what others did', async (t) => {
  const { start, lines, verify } = await open(t);
  const writer = start();
  const stranger = { key_id: undefined, decision: 'unauthenticated', status: 401 } as Partial<AuditEntry>;
  for (let n = 0; n < 5000; n++) writer.write(entry(n, stranger));
  writer.write(entry(1));
  await writer.close();
  t.equal(lines().length, 1 + 60 + 1 + 1 + 1);
  t.match(lines().join('\n'), /"event":"unlisted","lines":4940,"class":"unauthenticated"/);
  t.same((await verify()).problems, []);
});

/** What costs a client nothing: the class, and how many of it have lines of their own. */
const CHEAP: Readonly<Record<string, [Partial<RequestEntry>, number]>> = {
  denied: [{ decision: 'denied', status: 403 }, 120],
  failed: [{ route: 'deleteSandbox', operation: 'delete', status: 404 }, 120],
  broken: [{ route: 'createSandbox', operation: 'create', status: 503 }, 120],
  listed: [{ route: 'whoami', status: 200 }, 600],
};

for (const [kind, [flood, most]] of Object.entries(CHEAP)) {
  t.test(`of what is ${kind} a key has ${most} lines a minute, and it hides nothing else`, async (t) => {
    const { start, lines, verify } = await open(t);
    const writer = start();
    for (let n = 0; n < 1000; n++) writer.write(entry(n, { operation: undefined, ...flood } as object));
    const others = Object.keys(CHEAP).filter((other) => other !== kind);
    for (const other of others) writer.write(entry(1, { ...CHEAP[other]?.[0], request: 'mine' } as object));
    for (const route of [
      'readFile',
      'readLogs',
      'readServiceLogs',
      'getService',
      'execWebSocket',
      'pushFiles',
    ])
      writer.write(entry(1, { route, operation: 'read', request: 'mine' } as object));
    writer.write(entry(1, { route: 'pushFiles', status: 400, reached: true, request: 'mine' } as object));
    writer.write(entry(1, { ...flood, key_id: 'other', request: 'mine' } as object));
    await writer.close();
    t.equal(lines().filter((line) => line.includes('"mine"')).length, others.length + 8);
    t.equal(lines().length, 1 + most + others.length + 8 + 1 + 1);
    t.match(
      lines().join('\n'),
      new RegExp(`"event":"unlisted","lines":${1000 - most},"class":"${kind}","key_id":"c1"`),
    );
    t.same((await verify()).problems, []);
  });
}

t.test(
  'what reached a guest has its line; thousands that say the same share one, with their count',
  async (t) => {
    const { start, lines, verify } = await open(t);
    const writer = start();
    const read = { route: 'readFile', operation: 'read' };
    for (let n = 0; n < 5000; n++)
      for (const event of ['begun', 'request'])
        writer.write(entry(n, { ...read, event, ids: ['sbx_1'] } as object));
    writer.write(entry(1, { ...read, ids: ['sbx_2'] } as object));
    writer.write(entry(1, { ids: ['sbx_1'] } as object));
    for (let n = 0; n < 2000; n++) {
      writer.write(entry(n, { route: 'createSandbox', operation: 'create', made: [`sbx_${n}`] } as object));
      writer.write(
        entry(n, { route: 'deleteSandbox', operation: 'delete', status: 204, ids: [`sbx_${n}`] } as object),
      );
    }
    await writer.close();
    const parsed = lines().map((line) => JSON.parse(line));
    const count = (fields: object) =>
      parsed.filter((line) => Object.entries(fields).every(([name, value]) => line[name] === value)).length;
    t.match([count({ route: 'createSandbox' }), count({ route: 'deleteSandbox' })], [2000, 2000]);
    t.equal(count({ route: 'exec' }), 1);
    t.equal(count({ route: 'readFile', event: 'begun' }), 601);
    t.equal(count({ route: 'readFile', event: 'request' }), 602, 'with that of the other sandbox');
    t.match(
      parsed.filter(({ event }) => event === 'repeated'),
      [{ times: 5000 - 601, key_id: 'c1', key: 'ci', ...read, ids: ['sbx_1'] }],
    );
    t.same((await verify()).problems, []);
  },
);

t.test('counts are told when their minute is over, and the next one has lines again', async (t) => {
  const { start, lines } = await open(t);
  const timers = new MadeTimers(t);
  const writer = start();
  const flood = (count: number) => {
    for (let n = 0; n < count; n++)
      writer.write(entry(n, { route: 'whoami', operation: undefined } as object));
  };
  flood(700);
  t.equal(lines().length, 1 + 600);
  await timers.pass(60_000);
  t.match(JSON.parse(lines().at(-1) ?? ''), { event: 'unlisted', lines: 100, class: 'listed' });
  flood(10);
  t.equal(lines().length, 1 + 600 + 1 + 10);
  await timers.pass(60_000);
  t.equal(lines().length, 1 + 600 + 1 + 10, 'nothing to tell');
  await writer.close();
});

t.test('a key that a client put anywhere is in no line', async (t) => {
  const { start, lines, verify } = await open(t);
  const writer = start();
  const key = `sbk_${'aB3-_x9Z'.repeat(4)}`;
  const reason = `host "${key}" is no name of this daemon, nor "${key.toLowerCase()}", %73bk%5f${key.slice(4)}, ${key.slice(0, 20)}`;
  writer.write(
    entry(1, { decision: 'denied', status: 403, reason, request: key, effective: { image: key } } as object),
  );
  await writer.close();
  t.notMatch(lines().join(), /aB3/i);
  t.match(lines().join(), /host \\"sbk_…\\" is no name/);
  t.same((await verify()).problems, []);
});

t.test('a disk that is full is told by the next line that can be written', async (t) => {
  const { dir, anchors, files, lines, verify } = await open(t);
  let isFull = false;
  const now = (): Date => {
    if (isFull) throw new Error('no space left on the disk');
    return new Date();
  };
  const writer = new AuditTrail({ dir, maxBytes: 2 ** 30, anchors, log, now });
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
