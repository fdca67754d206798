// Files in and out of a real guest: contents, headers, errors, hostile archives, and what goes away in the middle.
import process from 'node:process';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { bigTar, listTar, makeTar, pull, push, type TarMember } from '../support/files.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(400_000));
const { api } = await startDaemon(t);
const { id } = await api.create();

t.test('what is pushed can be read, whole and in part', async (t) => {
  const content = Buffer.alloc(300_000, 'content ');
  const archive = await makeTar([
    { name: 'd/', type: 'directory', mode: 0o750, mtime: new Date(1_100_000_000_000) },
    { name: 'd/file', mode: 0o640, mtime: new Date(1_200_000_000_000), content },
    { name: 'd/link', type: 'symlink', linkname: 'file' },
    { name: 'd/hard', type: 'link', linkname: 'd/file' },
    { name: 'd/empty' },
  ]);
  for (const [path, bytes] of [
    ['/srv/new', archive],
    ['/srv/gzip ü', gzipSync(archive)],
  ] as const) {
    t.match(await push(api, id, path, bytes), { status: 200, push: { files: 2, bytes: content.length } });
    const whole = await pull(api, id, `${path}/d/link`);
    t.equal(whole.status, 200);
    t.equal(whole.headers.get('content-type'), 'application/octet-stream');
    t.equal(whole.headers.get('x-file-size'), '300000');
    t.equal(whole.headers.get('content-length'), '300000');
    t.notOk(whole.headers.has('x-truncated'));
    t.ok(Buffer.from(await whole.arrayBuffer()).equals(content));
  }
  t.equal(
    await api.sh(id, 'cd /srv/new/d; stat -c "%a %Y %h %U" . file; readlink link'),
    '750 1100000000 2 root\n640 1200000000 2 root\nfile',
  );
  const part = await pull(api, id, '/srv/new/d/file', '&max_bytes=100000');
  t.same(
    ['x-file-size', 'x-truncated', 'content-length'].map((name) => part.headers.get(name)),
    ['300000', 'true', '100000'],
  );
  t.ok(Buffer.from(await part.arrayBuffer()).equals(content.subarray(0, 100_000)));
  const head = await pull(api, id, '/srv/new/d/file', '&max_bytes=7', 'HEAD');
  t.same(
    ['x-file-size', 'x-truncated', 'content-length'].map((name) => head.headers.get(name)),
    ['300000', 'true', '7'],
  );
  t.equal(await head.text(), '');
  const empty = await pull(api, id, '/srv/new/d/empty');
  t.same([empty.status, empty.headers.get('x-file-size'), await empty.text()], [200, '0', '']);
  await api.sh(id, 'head -c 11000000 /dev/zero > /srv/eleven');
  const capped = await pull(api, id, '/srv/eleven');
  t.equal((await capped.arrayBuffer()).byteLength, 10 * 2 ** 20, '10 MiB unless told otherwise');
  t.equal(capped.headers.get('x-truncated'), 'true');
});

t.test('special files give an answer or an error at once', async (t) => {
  await api.sh(id, 'mkfifo /srv/fifo');
  const uptime = await pull(api, id, '/proc/uptime');
  t.match(await uptime.text(), /^\d+\.\d+ /);
  t.ok(Number(uptime.headers.get('x-file-size')) > 5);
  const thp = await pull(api, id, '/sys/kernel/mm/transparent_hugepage/enabled');
  t.match(await thp.text(), /never/, 'a file that says it has 4096 bytes and has fewer');
  const symbols = await pull(api, id, '/proc/kallsyms');
  t.equal(symbols.headers.get('x-file-size'), null, 'nobody knows before it is read');
  t.ok((await symbols.arrayBuffer()).byteLength > 2 ** 20);
  t.match(await (await pull(api, id, '/proc/kmsg')).text(), /Linux version/);
  for (const [path, status, pattern] of [
    ['/srv/fifo', 400, /fifo.*is a FIFO/],
    ['/dev/zero', 400, /character device/],
    ['/dev/vda', 400, /block device/],
    ['/srv', 400, /"\/srv" is a directory.*format=tar/],
    ['/srv/none', 404, /"\/srv\/none" does not exist/],
    ['/srv/eleven/x', 400, /not a directory/],
    ['/proc/1/mem', 400, /input\/output/],
    [`/${'x'.repeat(5000)}`, 400, /too long/],
  ] as const) {
    const response = await pull(api, id, path);
    t.equal(response.status, status, path.slice(0, 40));
    t.match(((await response.json()) as { error: string }).error, pattern);
  }
  const one = await listTar(
    Readable.fromWeb((await pull(api, id, '/srv/eleven', '&format=tar')).body as never),
  );
  t.same([...one.keys()], ['eleven']);
  t.equal((await pull(api, id, '/srv/fifo', '&format=tar')).status, 400);
});

t.test('what cannot be written is refused by name, and what came before stays', async (t) => {
  await api.sh(id, 'mkdir -p /small /ro && mount -t tmpfs -o size=1m t /small && mount -t tmpfs -o ro t /ro');
  const one: TarMember = { name: 'one', content: 'first' };
  const archive = await makeTar([one, { name: 'two', content: Buffer.alloc(2_000_000) }]);
  for (const [path, bytes, pattern] of [
    ['/small', archive, /"two" cannot be written: the guest's disk is full; 1 file was written before/],
    ['/ro', archive, /"one" is on a read-only file system; 0 files/],
    ['/sys/kernel', archive, /"one" .*(permission|permitted|refused)/],
    ['/srv/cut', archive.subarray(0, 900_000), /cut off.*"two".*1 file was written before/],
    ['/srv/cutgz', gzipSync(archive).subarray(0, 1500), /cut off: its gzip/],
    ['/srv/noise', Buffer.alloc(5000, 'noise'), /not a tar archive|damaged/],
    ['/srv/xz', Buffer.from('fd377a585a00', 'hex'), /this is xz/],
    ['/srv/eleven/x', archive, /destination.*not a directory/],
  ] as const) {
    const answer = await push(api, id, path, bytes);
    t.equal(answer.status, 400, path);
    t.match(answer.error, pattern);
  }
  const nothing = await push(api, id, '/srv/empty', Buffer.alloc(0));
  t.match(nothing, { status: 200, push: { files: 0, bytes: 0 } });
  t.equal(await api.sh(id, 'ls -d /srv/empty'), '/srv/empty', 'made, as for an archive of no files');
  for (const place of ['/small', '/srv/cut']) {
    t.equal(await (await pull(api, id, `${place}/one`)).text(), 'first');
    t.equal((await pull(api, id, `${place}/two`)).status, 404, 'half a file is not left');
  }
  await api.sh(id, 'umount /small /ro');
  // The writable layer of a sandbox itself, full.
  const tiny = await api.create({ disk_bytes: 64 * 2 ** 20, memory_mib: 256 });
  const full = await push(
    api,
    tiny.id,
    '/',
    bigTar('big', 128 * 2 ** 20, (bytes) => Buffer.alloc(bytes, 7)),
  );
  t.match(full, { status: 400, error: /"big" cannot be written: the guest's disk is full/ });
  t.match(await push(api, tiny.id, '/', await makeTar([one])), { status: 200 }, 'and there is room again');
  await api.delete(tiny.id);
});

t.test('hostile archives write nothing outside, even while links are swapped in', async (t) => {
  await api.sh(id, 'mkdir -p /out/e /in/d/e && echo secret > /out/secret && ln -s /out /in/leaves');
  for (const [members, pattern] of [
    [[{ name: '../x', content: 'x' }], /"..\/x" leads out/],
    [[{ name: 'leaves/x', content: 'x' }], /"leaves\/x" leads out/],
    [[{ name: 's', type: 'symlink', linkname: '/out' }], /"s" is a symbolic link to "\/out"/],
    [[{ name: 'h', type: 'link', linkname: '../out/secret' }], /"h" is a hard link/],
    [[{ name: 'dev', type: 'block-device', devmajor: 254 }], /"dev" is a block device/],
    [[{ name: `${'a/'.repeat(10_000)}x`, content: 'x' }], /too long/],
  ] as const) {
    t.match(await push(api, id, '/in', await makeTar(members as readonly TarMember[])), {
      status: 400,
      error: pattern,
    });
  }
  t.match(await push(api, id, '/in', await makeTar([{ name: '/abs', content: 'x' }])), { status: 200 });
  const script =
    'chdir "/in"; while (1) { rename "d", "w" . $n++; symlink "/out", "d"; unlink "d"; mkdir "d"; mkdir "d/e" }';
  const racer = new AbortController();
  const racing = api
    .fetch(`/sandboxes/${id}/exec`, {
      method: 'POST',
      body: JSON.stringify({ cmd: ['perl', '-e', script] }),
      signal: racer.signal,
    })
    .then((response) => response.text())
    .catch(() => '');
  const archive = await makeTar(
    Array.from({ length: 20 }, (_, n) => [
      { name: `d/x${n}`, content: 'x' },
      { name: `d/e/y${n}`, content: 'y' },
      { name: `d/l${n}`, type: 'symlink', linkname: 'x' } as const,
    ]).flat(),
  );
  const counts = { ok: 0, refused: 0 };
  for (let n = 0; n < 20; n++)
    counts[(await push(api, id, '/in', archive)).status === 200 ? 'ok' : 'refused'] += 1;
  racer.abort();
  await racing;
  t.comment(`${counts.ok} pushes went through, ${counts.refused} were refused`);
  t.equal(await api.sh(id, 'find /out | sort; cat /out/secret'), '/out\n/out/e\n/out/secret\nsecret');
});

t.test('a directory comes as tar, and goes in again as it was', async (t) => {
  const count = process.env.SOAK === '1' ? 20_000 : 2000;
  const members: TarMember[] = [];
  for (let d = 0; d * 100 < count; d++) {
    const mtime = new Date((1_200_000_000 + d) * 1000);
    members.push({ name: `dir-${d}`, type: 'directory', mode: d % 3 === 0 ? 0o700 : 0o755, mtime });
    for (let f = 0; f < 100; f++) {
      const content = `${d}.${f} `.repeat((d * 7 + f * 13) % 300);
      const mode = [0o644, 0o755, 0o600, 0o4711][f % 4] ?? 0;
      members.push({
        name: `dir-${d}/file-${f}`,
        mode,
        mtime: new Date((1_000_000_000 + d * 100 + f) * 1000),
        content,
      });
    }
    members.push({
      name: `dir-${d}/${'long-'.repeat(40)}`,
      type: 'symlink',
      mode: 0o777,
      linkname: 'file-1',
      mtime,
    });
  }
  const archive = await makeTar(members);
  const sent = await listTar(Readable.from([archive]));
  let startedAt = performance.now();
  t.match(await push(api, id, '/tree', archive), { status: 200, push: { files: count } });
  t.comment(
    `pushed ${count} files, ${archive.length} bytes in ${Math.round(performance.now() - startedAt)} ms`,
  );
  startedAt = performance.now();
  const response = await pull(api, id, '/tree', '&format=tar');
  t.equal(response.headers.get('content-type'), 'application/x-tar');
  const got = await listTar(Readable.fromWeb(response.body as never));
  t.comment(`pulled in ${Math.round(performance.now() - startedAt)} ms`);
  got.delete('.');
  t.equal(got.size, sent.size);
  const different = [...sent].filter(([name, value]) => got.get(name) !== value);
  t.same(different.slice(0, 3), [], `${different.length} members differ`);
  await api.sh(
    id,
    'rm -rf /tree; mkdir -p /odd/sub; cd /odd; mkfifo fifo; echo 1 > a; ln a b; echo 2 > "$(printf "\\377")"; mount -t tmpfs t sub; echo 3 > sub/hidden',
  );
  const odd = await listTar(Readable.fromWeb((await pull(api, id, '/odd', '&format=tar')).body as never));
  t.same([...odd.keys()].sort(), ['.', 'a', 'b', 'sub', '\ufffd'], 'no FIFO, and no other file system');
  t.match([...odd.entries()].find(([, value]) => value.startsWith('link'))?.[1], / [ab] /);
  const root = await pull(api, id, '/', '&format=tar');
  const names = [...(await listTar(Readable.fromWeb(root.body as never))).keys()];
  t.ok(
    names.includes('etc/passwd') &&
      !names.some((name) => name.startsWith('.sandbox') || name.startsWith('proc/')),
  );
});

t.test('a client that leaves costs nothing', async (t) => {
  const fds = await api.sh(id, 'ls /proc/1/fd | wc -l');
  const left = new AbortController();
  const endless = Readable.from(
    (async function* () {
      yield await makeTar([{ name: 'whole', content: 'whole' }]).then((bytes) => bytes.subarray(0, 1024));
      yield (await makeTar([{ name: 'part', size: 0 }])).subarray(0, 512);
      const header = (await makeTar([{ name: 'part', content: Buffer.alloc(3_000_000) }])).subarray(
        0,
        1_000_000,
      );
      yield header;
      await sleep(60_000, undefined, { signal: left.signal }).catch(() => {});
    })(),
  );
  const pushing = push(api, id, '/gone', endless, left.signal).catch((error: Error) => error.name);
  for (let n = 0; n < scaled(100) && (await pull(api, id, '/gone/part')).status === 404; n++) await sleep(50);
  left.abort();
  t.equal(await pushing, 'AbortError');
  const reading = new AbortController();
  const response = await api.fetch(`/sandboxes/${id}/files?path=/srv/eleven`, { signal: reading.signal });
  await response.body?.getReader().read();
  reading.abort();
  let now = '';
  for (let n = 0; n < scaled(100) && now !== fds; n++) {
    await sleep(100);
    now = await api.sh(id, 'ls /proc/1/fd | wc -l');
  }
  t.equal(now, fds, 'nothing stays open in the guest');
  t.equal(await api.sh(id, 'ls /gone'), 'whole', 'half a file is not left');
});

t.test('a sandbox that dies in the middle is an error that says so', async (t) => {
  const { id: victim } = await api.create({ memory_mib: 256 });
  let sent = 0;
  const pushing = push(
    api,
    victim,
    '/x',
    bigTar('big', 2 ** 33, (bytes) => {
      sent += bytes;
      if (sent > 2 ** 24 && sent - bytes <= 2 ** 24)
        void api.exec(victim, ['sh', '-c', 'echo o > /proc/sysrq-trigger']).catch(() => {});
      return Buffer.alloc(bytes);
    }),
  ).catch((error: unknown) => String(error));
  const answer = await pushing;
  t.match(answer, { status: 500, error: /sandbox.*(died|dead)/ }, JSON.stringify(answer));
  const after = await pull(api, victim, '/etc/passwd');
  t.equal(after.status, 500);
  t.match(await after.text(), /dead/);
  await api.delete(victim);
  t.equal((await pull(api, victim, '/etc/passwd')).status, 404);
});
