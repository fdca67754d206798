// Watches of directories, in this process: what they report, whose rights apply, and that nothing is left open.
import '../support/addon-dir.ts';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Channel, decodeWatchRecord, MAX_FILE_WATCHES } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { type FileWatching, watchFiles } from '../../../../host-agent/src/guest/file-watch.ts';
import { TreeModel } from '../../../support/changed-tree.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';
import { startLocalAgent } from '../support/local-agent.ts';
import { openDescriptors } from '../support/open-descriptors.ts';

async function start(t: Test) {
  const dir = mkdtempSync(join(tmpdir(), 'watch-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  chmodSync(dir, 0o755);
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  return { dir, agent, channel };
}

type Options = {
  readonly recursive?: boolean;
  readonly user?: string;
  readonly root?: string;
  readonly isReading?: boolean;
};

function watch(channel: Channel, path: string, options: Options = {}) {
  const { recursive = true, user = '', root = '/', isReading = true } = options;
  const events: string[] = [];
  let ended: string | undefined;
  let waiting = 0;
  const place = { path: Buffer.from(path, 'latin1'), root: Buffer.from(root), user };
  const watching: FileWatching = watchFiles(
    { channel: withWatch(channel) },
    { place, recursive },
    {
      records: (records, bytes) => {
        for (let at = 0; records !== undefined && at < records.length; ) {
          const { record, next } = decodeWatchRecord(records, at);
          at = next;
          if (!('path' in record)) events.push(`${record.type} ${record.directories}`);
          else {
            const { type, path, from, isDirectory, isClosed } = record;
            const names = [from, path].filter((each) => each !== undefined);
            const flags = `${isDirectory ? '/' : ''}${isClosed ? '!' : ''}`;
            events.push(`${type} ${names.map((each) => each.toString('latin1')).join(' ')}${flags}`);
          }
        }
        if (isReading) queueMicrotask(() => watching.consumed(bytes));
        else waiting += bytes;
      },
      end: (reason) => {
        ended = reason;
      },
      failed: (error) => {
        ended = `${error.code}: ${error.message}`;
      },
    },
  );
  const at = async (event: string) => {
    await until(() => ended !== undefined || events.includes(event), event, 20_000);
    if (!events.includes(event)) throw new Error(`${event} is missing: ${ended} ${events.join(', ')}`);
  };
  const armed = until(() => ended !== undefined || events.length > 0, 'armed', 20_000);
  return {
    events,
    watching,
    at,
    armed,
    end: async () => {
      await until(() => ended !== undefined, 'the end', 20_000);
      return ended;
    },
    /** Events since the last call, once the mark has come. */
    since: async (directory: string, mark = 'mark') => {
      writeFileSync(join(directory, mark), '');
      await at(`write ${mark}!`);
      const some = events.splice(0);
      return some.filter((event) => !event.includes(mark));
    },
    resume: () => {
      watching.consumed(waiting);
      waiting = 0;
    },
  };
}

/** The local agent announces no capabilities. */
function withWatch(channel: Channel): Channel {
  return new Proxy(channel, {
    get: (target, name) => {
      if (name === 'can') return () => true;
      const value = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

t.setTimeout(scaled(120_000));

t.test('every kind of change is reported, a rename with both names', async (t) => {
  const { dir, channel, agent } = await start(t);
  mkdirSync(join(dir, 'old'));
  const before = openDescriptors();
  const { events, watching, armed, since, at } = watch(channel, dir);
  await armed;
  t.same(events.splice(0), ['armed 2']);
  const fd = openSync(join(dir, 'file'), 'w');
  await at('create file');
  writeSync(fd, 'one');
  await at('write file');
  closeSync(fd);
  await at('write file!');
  events.splice(0);
  chmodSync(join(dir, 'file'), 0o600);
  renameSync(join(dir, 'file'), join(dir, 'old/new'));
  rmSync(join(dir, 'old/new'));
  t.same(await since(dir), ['attrib file', 'rename file old/new', 'remove old/new']);
  mkdirSync(join(dir, 'a'));
  renameSync(join(dir, 'a'), join(dir, 'old/a'));
  writeFileSync(join(dir, 'old/a/f'), '');
  symlinkSync('x', join(dir, 'link'));
  t.match(await since(dir, 'mark2'), ['create a/', 'rename a old/a/', 'create old/a/', 'create old/a/f']);
  const tmp = mkdtempSync(join(tmpdir(), 'watch-'));
  renameSync(join(dir, 'old'), join(tmp, 'old'));
  writeFileSync(join(tmp, 'old/unseen'), '');
  renameSync(join(tmp, 'old'), join(dir, 'back'));
  rmSync(tmp, { recursive: true });
  const moved = await since(dir, 'mark3');
  t.same(moved[0], 'remove old/');
  t.ok(moved.includes('create back/'));
  t.same(
    moved.filter((event) => event.includes('unseen')),
    ['create back/unseen'],
  );
  watching.cancel();
  await until(() => openDescriptors() === before, 'the descriptors are closed', 5000);
  t.same(agent.faults, []);
});

t.test('a directory that comes with content is reported whole, and followed', async (t) => {
  const { dir, channel } = await start(t);
  const { armed, at } = watch(channel, dir);
  await armed;
  mkdirSync(join(dir, 'a/b/c'), { recursive: true });
  writeFileSync(join(dir, 'a/b/c/f'), '');
  await at('create a/b/c/f');
  appendFileSync(join(dir, 'a/b/c/f'), 'x');
  await at('write a/b/c/f!');
  const plain = watch(channel, dir, { recursive: false });
  await plain.armed;
  t.same(plain.events.splice(0), ['armed 1']);
  mkdirSync(join(dir, 'd'));
  writeFileSync(join(dir, 'd/unseen'), '');
  t.same(await plain.since(dir), ['create d/']);
});

t.test('names are bytes, and links are not followed', async (t) => {
  const { dir, channel } = await start(t);
  mkdirSync(join(dir, 'in'));
  mkdirSync(join(dir, 'out'));
  const { armed, since } = watch(channel, join(dir, 'in'));
  await armed;
  writeFileSync(Buffer.concat([Buffer.from(`${dir}/in/`), Buffer.of(0xff, 0xfe)]), '');
  symlinkSync('../out', join(dir, 'in/link'));
  writeFileSync(join(dir, 'out/secret'), '');
  t.same(await since(join(dir, 'in')), ['armed 1', 'create \xff\xfe', 'write \xff\xfe!', 'create link']);
  // The directory becomes a link while it is watched.
  mkdirSync(join(dir, 'in/d'));
  writeFileSync(join(dir, 'in/d/f'), '');
  await since(join(dir, 'in'), 'mark2');
  renameSync(join(dir, 'in/d'), join(dir, 'away'));
  symlinkSync('../out', join(dir, 'in/d'));
  writeFileSync(join(dir, 'out/more'), '');
  writeFileSync(join(dir, 'away/unseen'), '');
  t.same(await since(join(dir, 'in'), 'mark3'), ['remove d/', 'create d']);
});

t.test('the end of a directory is told', async (t) => {
  const { dir, channel } = await start(t);
  for (const change of [
    () => rmSync(join(dir, 'a'), { recursive: true }),
    () => renameSync(join(dir, 'a/b/c'), join(dir, 'moved')),
    () => renameSync(join(dir, 'a'), join(dir, 'above')),
  ]) {
    mkdirSync(join(dir, 'a/b/c'), { recursive: true });
    const { armed, end } = watch(channel, join(dir, 'a/b/c'));
    await armed;
    change();
    t.equal(await end(), 'removed', String(change));
    rmSync(join(dir, 'moved'), { recursive: true, force: true });
  }
  const refused = [
    [join(dir, 'missing'), {}, /^not_found/],
    [join(dir, 'above'), { root: dir }, /^not_found/],
    ['/etc/passwd', {}, /^invalid_argument.*not a directory/],
    [dir, { user: 'no-such-user' }, /^invalid_argument/],
  ] as const;
  for (const [path, options, message] of refused)
    t.match(await watch(channel, path, options).end(), message, path);
});

t.test('rights of the user: at the beginning, and when they change', async (t) => {
  const { dir, channel } = await start(t);
  const user = '65534:65534';
  mkdirSync(join(dir, 'w/closed'), { recursive: true });
  mkdirSync(join(dir, 'w/open/in'), { recursive: true });
  chmodSync(join(dir, 'w/closed'), 0o700);
  const { armed, events, since } = watch(channel, join(dir, 'w'), { user });
  await armed;
  t.same(events.splice(0), ['armed 3']);
  writeFileSync(join(dir, 'w/closed/secret'), '');
  writeFileSync(join(dir, 'w/open/in/f'), '');
  t.same(await since(join(dir, 'w')), ['create open/in/f', 'write open/in/f!']);
  chmodSync(join(dir, 'w/open'), 0o711);
  writeFileSync(join(dir, 'w/open/secret'), '');
  chmodSync(join(dir, 'w/closed'), 0o755);
  const changed = await since(join(dir, 'w'), 'mark2');
  t.same(changed, ['attrib open/', 'attrib closed/', 'create closed/', 'create closed/secret']);
  mkdirSync(join(dir, 'w/dark/in'), { recursive: true });
  await since(join(dir, 'w'), 'mark3');
  chmodSync(join(dir, 'w/dark'), 0o644);
  writeFileSync(join(dir, 'w/dark/in/secret'), '');
  t.same(await since(join(dir, 'w'), 'mark4'), ['attrib dark/'], 'a directory that cannot be entered');
  const inner = watch(channel, join(dir, 'w/closed'), { user });
  await inner.armed;
  chmodSync(join(dir, 'w'), 0o700);
  writeFileSync(join(dir, 'w/closed/later'), '');
  t.equal(await inner.end(), 'unreadable');
  t.notOk(inner.events.some((event) => event.includes('later')));
  t.match(await watch(channel, join(dir, 'w'), { user }).end(), /permission denied/);
});

t.test(
  'a client that does not read is told that changes were lost, and what it takes is bounded',
  async (t) => {
    const { dir, channel } = await start(t);
    const { armed, events, at, resume, since } = watch(channel, dir, { isReading: false });
    await armed;
    const name = 'x'.repeat(200);
    for (let at = 0; at < 30_000; at++) {
      writeFileSync(join(dir, `${name}${at % 500}`), '');
      if (at % 100 === 0) await sleep(1);
    }
    t.ok(events.length < 10_000, `${events.length}`);
    const timer = setInterval(resume, 10);
    t.teardown(() => clearInterval(timer));
    await at('overflow 1');
    await since(dir);
  },
);

t.test('the number of watches is bounded, and a lost client gives its own back', async (t) => {
  const { dir, channel, agent } = await start(t);
  const before = openDescriptors();
  for (let count = 0; count < MAX_FILE_WATCHES; count++) await watch(channel, dir).armed;
  t.match(await watch(channel, dir).end(), /^exhausted: there are 16 watches/);
  for (const socket of agent.sockets) socket.destroy();
  const next = await agent.connect('another');
  await until(
    () => openDescriptors() <= before + 1,
    `${openDescriptors()} descriptors, ${before} before`,
    5000,
  );
  const { armed, events, watching } = watch(next, dir);
  await armed;
  t.same(events, ['armed 1']);
  watching.cancel();
});

t.test('names that are exchanged have what is there now, and both are followed', async (t) => {
  const { dir, channel } = await start(t);
  for (const name of ['a', 'b']) mkdirSync(join(dir, name, `in-${name}`), { recursive: true });
  const { armed, since, events } = watch(channel, dir);
  await armed;
  events.splice(0);
  const exchange = (one: string, other: string) =>
    execFileSync('perl', ['-e', 'syscall(316, -100, $ARGV[0], -100, $ARGV[1], 2) and die $!', one, other]);
  exchange(join(dir, 'a'), join(dir, 'b'));
  const seen = await since(dir);
  const model = new TreeModel();
  for (const [path, isDir] of [
    ['a', true],
    ['a/in-a', true],
    ['b', true],
    ['b/in-b', true],
  ] as const)
    model.tree.set(path, isDir);
  for (const event of seen) {
    const [type = '', ...names] = event.split(' ');
    const path = names.at(-1) ?? '';
    model.apply({ type, from: names[0], path: path.replace(/[/!]+$/, ''), isDirectory: path.endsWith('/') });
  }
  t.same(model.sorted, ['a/', 'a/in-b/', 'b/', 'b/in-a/'], seen.join(', '));
  writeFileSync(join(dir, 'a/in-b/f'), '');
  writeFileSync(join(dir, 'b/in-a/g'), '');
  const later = await since(dir, 'mark2');
  t.same(
    later.filter((event) => event.startsWith('create')),
    ['create a/in-b/f', 'create b/in-a/g'],
  );
});

t.test('a large tree that moves out and in again is followed', async (t) => {
  const { dir, channel } = await start(t);
  mkdirSync(join(dir, 'w/big'), { recursive: true });
  for (let at = 0; at < 2000; at++) mkdirSync(join(dir, `w/big/${at}`));
  const { armed, since, events } = watch(channel, join(dir, 'w'));
  await armed;
  t.same(events.splice(0), ['armed 2002']);
  renameSync(join(dir, 'w/big'), join(dir, 'out'));
  renameSync(join(dir, 'out'), join(dir, 'w/big'));
  const back = await since(join(dir, 'w'));
  t.equal(back.filter((event) => event.startsWith('create big/')).length, 2001);
  writeFileSync(join(dir, 'w/big/1999/f'), '');
  t.ok((await since(join(dir, 'w'), 'mark2')).includes('create big/1999/f'));
});

t.test('a watch of 10,000 directories costs little memory', async (t) => {
  const { dir, channel } = await start(t);
  for (let at = 0; at < 10_000; at++)
    mkdirSync(join(dir, `${at % 100}/directory-of-many-${at}`), { recursive: true });
  const before = process.memoryUsage.rss();
  const { armed, events } = watch(channel, dir);
  await armed;
  t.same(events, ['armed 10101']);
  const mib = (process.memoryUsage.rss() - before) / 2 ** 20;
  t.ok(mib < 64, `${mib.toFixed(1)} MiB`);
});
