// Files and the service's output through the library, over the daemon's real server.
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { Client, NotFoundError } from '@sandboxd/client';
import t, { type Test } from 'tap';
import { extract, pack } from 'tar-stream';
import { AppError } from '../../../host-agent/src/lib/errors.ts';
import type { SandboxService } from '../../../host-agent/src/sandboxes/service.ts';
import { outflow } from '../fake-sandboxes.ts';
import { serve } from '../support.ts';

type Entry = { readonly name: string; readonly type: string; readonly text: string; readonly mode: number };

/** What was pushed, by the directory it went to. */
async function connect(t: Test) {
  const { url, sandboxes } = await serve(t);
  const pushed: { directory: string; entries: Entry[] }[] = [];
  sandboxes.onPush = async (directory, read) => {
    const entries: Entry[] = [];
    const archive = extract({});
    const done = (async () => {
      for await (const entry of archive) {
        const text = (await buffer(entry)).toString();
        const { name, type, mode = 0 } = entry.header;
        entries.push({ name, type: type ?? 'file', text, mode });
      }
    })();
    for (let bytes = await read(); bytes !== undefined; bytes = await read())
      archive.write(Buffer.from(bytes));
    archive.end(undefined);
    await done;
    pushed.push({ directory, entries });
    return { files: entries.length, bytes: entries.reduce((sum, { text }) => sum + text.length, 0) };
  };
  const { files, service } = new Client({ host: url }).sandboxes.get(sandboxes.add().id);
  return { files, service, sandboxes, pushed };
}

t.test('a file is read as bytes, as text, as a stream', async (t) => {
  const { files, sandboxes } = await connect(t);
  const asked: unknown[] = [];
  sandboxes.onPull = async (path, maxBytes) => {
    asked.push([path, maxBytes]);
    return { sizeBytes: 6, contentBytes: 6, body: outflow('ab', 'cdef') };
  };
  t.same(Buffer.from(await files.read('/a b')), Buffer.from('abcdef'));
  t.equal(await files.readText('/a', { maxBytes: 6 }), 'abcdef');
  const stream = await files.stream('/a');
  t.equal(stream.sizeBytes, 6);
  t.equal((await buffer(stream)).toString(), 'abcdef');
  t.same(asked, [
    ['/a b', Number.MAX_SAFE_INTEGER],
    ['/a', 6],
    ['/a', Number.MAX_SAFE_INTEGER],
  ]);
  sandboxes.onPull = async () => {
    throw new AppError('not_found', 'there is no file /b');
  };
  await t.rejects(files.read('/b'), NotFoundError);
});

t.test('a file is written from a text, bytes, or a stream of known size', async (t) => {
  const { files, pushed } = await connect(t);
  await files.write('/srv/a.txt', 'text ä');
  await files.write('/top', new Uint8Array([65, 66]), { mode: 0o755 });
  await files.write('/srv/deep/b', Readable.from([Buffer.from('12'), Buffer.from('345')]), { sizeBytes: 5 });
  t.same(pushed, [
    { directory: '/srv', entries: [{ name: 'a.txt', type: 'file', text: 'text ä', mode: 0o644 }] },
    { directory: '/', entries: [{ name: 'top', type: 'file', text: 'AB', mode: 0o755 }] },
    { directory: '/srv/deep', entries: [{ name: 'b', type: 'file', text: '12345', mode: 0o644 }] },
  ]);
  await t.rejects(files.write('/x', Readable.from([Buffer.from('1')])), { message: /sizeBytes/ });
  await t.rejects(files.write('relative/', 'x'), { message: /absolute path/ });
});

t.test('a directory goes in and comes out, with modes and links', async (t) => {
  const { files, sandboxes, pushed } = await connect(t);
  const dir = t.testdir({});
  const from = join(dir, 'from');
  mkdirSync(join(from, 'deep'), { recursive: true });
  writeFileSync(join(from, 'deep/run.sh'), 'echo hi', { mode: 0o755 });
  symlinkSync('deep/run.sh', join(from, 'link'));
  t.match(await files.push(from, '/srv'), { bytes: 7 });
  const { directory, entries = [] } = pushed[0] ?? {};
  t.equal(directory, '/srv');
  const byName = new Map(entries.map((entry) => [entry.name.replace(/^\.\/|\/$/g, ''), entry]));
  t.match(byName.get('deep/run.sh'), { text: 'echo hi', mode: 0o755 });
  t.match(byName.get('link'), { type: 'symlink' });

  const archive = pack();
  archive.entry({ name: 'sub/one', mode: 0o600 }, 'content');
  archive.finalize();
  const bytes = await buffer(archive);
  sandboxes.onPull = async () => ({ body: outflow(bytes.subarray(0, 700), bytes.subarray(700)) });
  await files.pull('/srv', join(dir, 'to'));
  t.equal(readFileSync(join(dir, 'to/sub/one'), 'utf8'), 'content');
});

t.test('an archive that leads out of the local directory is refused', async (t) => {
  const { files, sandboxes } = await connect(t);
  const dir = t.testdir({});
  const archive = pack();
  archive.entry({ name: 'up', type: 'symlink', linkname: '..' });
  archive.entry({ name: 'up/escaped' }, 'bad');
  archive.finalize();
  const bytes = await buffer(archive);
  sandboxes.onPull = async () => ({ body: outflow(bytes) });
  await t.rejects(files.pull('/srv', join(dir, 'to')));
  t.throws(() => readFileSync(join(dir, 'escaped')), { code: 'ENOENT' });
});

t.test('the service is configured, and its output read', async (t) => {
  const { service, sandboxes } = await connect(t);
  const ring = { id: 'ab'.repeat(8), firstSeq: 0, nextSeq: 2, droppedRecords: 0, droppedBytes: 0 };
  sandboxes.serviceCalls = {
    configure: async (spec) => ({ state: 'running', spec, restarts: 0, pid: 5, ring }),
    stop: async (graceMs) => ({ state: graceMs === 2000 ? 'stopped' : 'failed' }),
    output: (_, events) => {
      const data = Buffer.from('ready');
      queueMicrotask(() => {
        events.records([{ kind: 'output', stream: 'stderr', seq: 1, unixMs: 1, data }], data.length);
        events.end({ ring, nextSeq: 2 });
      });
      return { consumed: () => {}, cancel: () => {} };
    },
  } satisfies Partial<SandboxService>;
  t.match(await service.configure({ cmd: ['sleep', '9'] }), {
    state: 'running',
    spec: { cmd: ['sleep', '9'] },
  });
  t.match(await service.stop({ graceS: 2 }), { state: 'stopped' });
  const seen: string[] = [];
  for await (const { stream, text } of service.logs()) seen.push(`${stream} ${text}`);
  t.same(seen, ['stderr ready']);
});
