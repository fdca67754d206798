// The registry: versions, damage, several readers.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from 'lmdb';
import t from 'tap';
import { toError } from '../../../../host-agent/src/lib/errors.ts';
import { SCHEMA_VERSION, Store } from '../../../../host-agent/src/store/store.ts';
import { findManyTables } from '../../../support/leftovers.ts';

type Row = { readonly n: number; readonly text: string };

const dir = mkdtempSync(join(tmpdir(), 'sbxd-store-'));
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
let files = 0;
const newPath = (): string => join(dir, `${files++}.lmdb`);

async function fill(path: string, rows = 200): Promise<void> {
  const store = await Store.open(path);
  const table = store.table<Row>('rows');
  await Promise.all(
    Array.from({ length: rows }, (_, n) =>
      table.put(`k${String(n).padStart(4, '0')}`, { n, text: 'x'.repeat(300) }),
    ),
  );
  await table.flush();
  await store.close();
}

t.test('records stay, all of a group or none', async (t) => {
  const path = newPath();
  const store = await Store.open(path);
  const table = store.table<Row>('rows');
  await table.put('a', { n: 1, text: 'one' });
  await table.putAll([
    { id: 'b', record: { n: 2, text: 'two' } },
    { id: 'c', record: { n: 3, text: 'three' } },
  ]);
  await table.remove('a');
  await store.close();
  const again = await Store.open(path);
  t.same(
    again
      .table<Row>('rows')
      .all()
      .map(({ id, record }) => [id, record.n]),
    [
      ['b', 2],
      ['c', 3],
    ],
  );
  await again.close();
});

// Tests with real daemons count theirs, see leftovers.ts.
t.test('there may be many tables', async (t) => {
  const dataDir = join(dir, 'many');
  const store = await Store.open(join(dataDir, 'state.lmdb'));
  const names = Array.from({ length: 120 }, (_, n) => `table_${n}`);
  for (const name of names) await store.table<number>(name).put('a', 1);
  t.ok(names.every((name) => store.table<number>(name).get('a') === 1));
  await store.close();
  t.match(await findManyTables(dataDir), [/^121 tables/]);
  t.same(await findManyTables(dataDir, 121), []);
});

t.test('of a group that cannot be stored whole nothing is', async (t) => {
  const path = newPath();
  const store = await Store.open(path);
  const rows = store.table<object>('rows');
  await rows.put('before', { n: 1 });
  const broken = Object.defineProperty({}, 'n', {
    enumerable: true,
    get: () => {
      throw new Error('cannot be stored');
    },
  });
  await t.rejects(
    rows.putAll([
      { id: 'first', record: { n: 2 } },
      { id: 'second', record: broken },
    ]),
    { message: /cannot be stored/ },
  );
  t.equal(rows.get('first'), undefined, 'in this process');
  await store.close();
  const again = await Store.open(path);
  t.same(again.table<object>('rows').all(), [{ id: 'before', record: { n: 1 } }], 'and on disk');
  await again.close();
});

t.test('another process reads while this one writes', async (t) => {
  const path = newPath();
  await fill(path);
  const store = await Store.open(path);
  await store.table<Row>('rows').put('new', { n: -1, text: 'written while the other was not there yet' });
  const script = `import { Store } from ${JSON.stringify(join(import.meta.dirname, '../../../../host-agent/src/store/store.ts'))};
    const store = await Store.open(process.argv[1]); console.log(store.table('rows').all().length); await store.close();`;
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', script, path], {
    encoding: 'utf8',
  });
  t.equal(output.trim(), '201');
  await store.table<Row>('rows').put('newer', { n: -2, text: '' });
  t.equal(store.table<Row>('rows').all().length, 202);
  await store.close();
});

t.test('a field has the name that it was stored with, whatever it is', async (t) => {
  const path = newPath();
  const names = [
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    '__proto_',
    '\ud800',
    'ä\0"\\',
    '',
  ];
  const record = Object.fromEntries(
    names.map((name) => [name, { [name]: `value of ${name}`, list: [name] }]),
  );
  const store = await Store.open(path);
  const table = store.table<object>('rows');
  // Often enough that a decoder which compiles its readers does so.
  await Promise.all(Array.from({ length: 50 }, (_, n) => table.put(`k${n}`, record)));
  await store.close();
  const again = await Store.open(path);
  const found = again.table<object>('rows').all();
  t.equal(found.length, 50);
  for (const read of [...found.map((each) => each.record), again.table<object>('rows').get('k7') ?? {}]) {
    t.strictSame(Object.keys(read), names);
    t.equal(JSON.stringify(read), JSON.stringify(record));
    t.equal(Object.getPrototypeOf(read), Object.prototype);
  }
  t.same(again.table<object>('rows').latestRange({ from: 'k7', limit: 1 })[0]?.record, record);
  await again.close();
});

t.test('a database from before the first release is refused, and left as it is', async (t) => {
  const path = newPath();
  const root = open({ path, noSubdir: true, maxDbs: 16 });
  await root.openDB<number, string>({ name: 'meta' }).put('schema_version', SCHEMA_VERSION - 1);
  await root.close();
  for (let round = 0; round < 2; round++)
    await t.rejects(Store.open(path), {
      code: 'internal',
      message: /schema version 5, of a version that was never released.*move the file away/,
    });
});

t.test('a database of a newer daemon is refused, and left as it is', async (t) => {
  const path = newPath();
  const root = open({ path, noSubdir: true, maxDbs: 16 });
  await root.openDB<number, string>({ name: 'meta' }).put('schema_version', SCHEMA_VERSION + 1);
  await root.close();
  for (let round = 0; round < 2; round++) {
    await t.rejects(Store.open(path), {
      message: new RegExp(
        `schema version ${SCHEMA_VERSION + 1}; this daemon reads version ${SCHEMA_VERSION}.*run the daemon`,
      ),
    });
  }
});

t.test('a user who may not write the registry is not advised to move it away', async (t) => {
  // A file that not even root can open for writing.
  const { message } = await Store.open('/sys/kernel/notes').then(() => new Error('it opened'), toError);
  t.match(message, /cannot be used: EACCES.*run the daemon as root/);
  t.notMatch(message, /move it away/);
});

t.test('damage is refused with what to do, never with a crash', async (t) => {
  const healthy = newPath();
  await fill(healthy);
  const pages = readFileSync(healthy).length / 4096;
  const kinds: Readonly<Record<string, (path: string) => void>> = {
    'not a database': (path) => writeFileSync(path, Buffer.alloc(20_000, 'garbage!')),
    'a few letters': (path) => writeFileSync(path, 'hello'),
    'cut to its first pages': (path) => truncateSync(path, 2 * 4096),
    'cut in the middle': (path) => truncateSync(path, Math.floor(pages / 2) * 4096),
    'one page is left': (path) => truncateSync(path, 4096),
    'zeros behind the first pages': (path) => overwrite(path, 2, () => 0),
    'noise behind the first pages': (path) => overwrite(path, 2, (at) => (at * 7919) % 251),
    'another magic number': (path) => overwrite(path, 0, () => 0xff),
  };
  for (const [name, damage] of Object.entries(kinds)) {
    const path = newPath();
    copyFileSync(healthy, path);
    damage(path);
    await t.rejects(Store.open(path), { message: /cannot be used: .*move it away/ }, name);
  }
});

t.test('an empty file is an empty registry', async (t) => {
  const path = newPath();
  writeFileSync(path, '');
  const store = await Store.open(path);
  t.same(store.table<Row>('rows').all(), []);
  await store.close();
  t.ok(statSync(path).size > 0);
});

function overwrite(path: string, fromPage: number, byte: (at: number) => number): void {
  const content = readFileSync(path);
  for (let at = fromPage * 4096; at < content.length; at++) content[at] = byte(at);
  writeFileSync(path, content);
}

t.test('other users cannot read the registry, in which services have their passwords', async (t) => {
  const path = newPath();
  const before = process.umask(0);
  t.teardown(() => process.umask(before));
  await fill(path, 1);
  const modes = () => [path, `${path}-lock`].map((file) => statSync(file).mode & 0o777);
  t.same(modes(), [0o600, 0o600]);
  chmodSync(path, 0o644);
  await (await Store.open(path)).close();
  t.same(modes(), [0o600, 0o600], 'one of an earlier daemon');
});
