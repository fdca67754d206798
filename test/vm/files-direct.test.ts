// Files that are long enough to go past the guest's page cache: of every kind of length, at once, and cut short.
import { createHash, randomBytes } from 'node:crypto';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { makeTar, pull, push } from '../support/files.ts';
import { scaled } from '../support/time-scale.ts';

const MIB = 2 ** 20;
/** A piece of the agent is 900 KiB; a block 4 KiB. */
const SIZES = [4 * MIB, 4 * MIB + 1, 4 * MIB + 4095, 5 * 900 * 1024, 9 * MIB + 12_345];

t.setTimeout(scaled(600_000));
const { api } = await startDaemon(t);
const { id } = await api.create({ memory_mib: 256 });
const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const dropCaches = (): Promise<string> => api.sh(id, 'sync; echo 3 > /proc/sys/vm/drop_caches');

async function pulled(path: string, query = ''): Promise<Buffer> {
  const response = await pull(api, id, path, `&max_bytes=${2 ** 40}${query}`);
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return Buffer.from(await response.arrayBuffer());
}

const files = SIZES.map((sizeBytes, index) => ({
  name: `file-${index}`,
  path: `/direct/file-${index}`,
  content: randomBytes(sizeBytes),
}));

t.test('every byte, whatever the length', async (t) => {
  const small = { name: 'small', content: 'between them' };
  const archive = await makeTar([small, ...files]);
  const { status, push: done } = await push(api, id, '/direct', archive);
  t.equal(status, 200);
  t.equal(done?.bytes, SIZES.reduce((sum, size) => sum + size, 0) + small.content.length);
  const sums = await api.sh(id, "sha256sum /direct/file-* | cut -d' ' -f1; cat /direct/small");
  t.same(sums.split('\n'), [...files.map(({ content }) => digest(content)), small.content]);
  await dropCaches();
  for (const { path, content } of files) {
    t.equal(digest(await pulled(path)), digest(content), `${path}, ${content.length} bytes, from the disk`);
    t.equal(digest(await pulled(path)), digest(content), 'again');
  }
  await api.sh(id, 'cat /direct/file-* > /dev/null');
  for (const { path, content } of files)
    t.equal(digest(await pulled(path)), digest(content), `${path} from the cache`);
});

t.test('a part of one, to any byte', async (t) => {
  await dropCaches();
  const { path, content } = files[4] as (typeof files)[number];
  for (const maxBytes of [4 * MIB + 1, 61_440 * 80, 61_440 * 80 + 3, 9 * MIB + 12_344]) {
    const response = await pull(api, id, path, `&max_bytes=${maxBytes}`);
    const bytes = Buffer.from(await response.arrayBuffer());
    t.equal(bytes.length, maxBytes);
    t.ok(bytes.equals(content.subarray(0, maxBytes)), `${maxBytes} bytes`);
  }
});

t.test('several at once, among commands', async (t) => {
  await dropCaches();
  const archives = await Promise.all(files.map(({ content }) => makeTar([{ name: 'copy', content }])));
  const pushes = archives.map((archive, index) => push(api, id, `/copies/${index}`, archive));
  const pulls = files.map(({ path }) => pulled(path));
  const echoes = Array.from({ length: 20 }, (_, index) => api.sh(id, `echo ${index}`));
  t.same(
    (await Promise.all(pushes)).map(({ status }) => status),
    files.map(() => 200),
  );
  t.same(
    (await Promise.all(pulls)).map(digest),
    files.map(({ content }) => digest(content)),
  );
  t.same(
    await Promise.all(echoes),
    echoes.map((_, index) => String(index)),
  );
  const sums = await api.sh(id, "sha256sum /copies/*/copy | cut -d' ' -f1");
  t.same(
    sums.split('\n'),
    files.map(({ content }) => digest(content)),
  );
});

t.test('an archive that is cut off leaves nothing of the file, and the next is written', async (t) => {
  const content = randomBytes(6 * MIB);
  const archive = await makeTar([{ name: 'cut', content }]);
  const { status, error } = await push(api, id, '/direct', archive.subarray(0, 5 * MIB));
  t.equal(status, 400, error);
  t.equal(await api.sh(id, 'ls /direct/cut 2>&1 | wc -l; test -e /direct/cut || echo gone'), '1\ngone');
  t.equal((await push(api, id, '/direct', archive)).status, 200);
  t.equal(await api.sh(id, "sha256sum /direct/cut | cut -d' ' -f1"), digest(content));
});

t.test('a full disk is an error that names the file, and leaves nothing of it', async (t) => {
  await api.sh(id, 'fallocate -l $(($(df --output=avail -k / | tail -1) - 8192))K /filler');
  const archive = await makeTar([{ name: 'large', content: randomBytes(24 * MIB) }]);
  const { status, error } = await push(api, id, '/full', archive);
  t.equal(status, 400, error);
  t.match(error, /large/);
  t.equal(await api.sh(id, 'rm /filler; ls /full'), '');
});

t.test('a file system in memory takes them too, and says when it is full', async (t) => {
  await api.sh(id, 'mkdir -p /ram && mount -t tmpfs -o size=32m ram /ram');
  const content = randomBytes(7 * MIB + 1);
  t.equal((await push(api, id, '/ram', await makeTar([{ name: 'large', content }]))).status, 200);
  t.equal(digest(await pulled('/ram/large')), digest(content));
  const tooLarge = await makeTar([{ name: 'too-large', content: randomBytes(40 * MIB) }]);
  const { status, error } = await push(api, id, '/ram', tooLarge);
  t.equal(status, 400, error);
  t.match(error, /too-large/);
  t.equal(await api.sh(id, 'ls /ram'), 'large');
});

t.test('a file that becomes shorter while it is read is an error', async (t) => {
  await api.sh(id, 'head -c 64M /dev/urandom > /direct/shrinking');
  await dropCaches();
  const response = await pull(api, id, '/direct/shrinking', `&max_bytes=${2 ** 40}`);
  await api.sh(id, 'truncate -s 1M /direct/shrinking');
  await t.rejects(response.arrayBuffer());
  t.equal(await api.sh(id, 'echo alive'), 'alive');
});

/**
 * Makes a file with a hole behind each block, so that its extents need blocks of their own, and wipes one of those. Gives how
 * many bytes can be read before that.
 */
async function makeUnreadable(path: string, blocks: number): Promise<number> {
  const write = `perl -e 'open F, ">", $ARGV[0]; for (0..${blocks - 1}) { sysseek F, $_ * 8192, 0; syswrite F, "x" x 4096 }'`;
  await api.sh(id, `${write} ${path}`);
  await dropCaches();
  const extents = await api.sh(id, `debugfs -R 'stat /upper${path}' /dev/vdb 2>/dev/null`);
  const [, second] = [...extents.matchAll(/ETB0\):(\d+)/g)].map(([, block]) => block);
  await api.sh(id, `dd if=/dev/zero of=/dev/vdb bs=4k seek=${second} count=1 conv=notrunc status=none`);
  await dropCaches();
  const readable = Number(await api.sh(id, `cat ${path} 2>/dev/null | wc -c`));
  await dropCaches();
  return readable;
}

t.test('a disk that cannot be read is an error, never zeros', async (t) => {
  // Read past the page cache, and through it.
  for (const blocks of [768, 384]) {
    const path = `/root/unreadable-${blocks}`;
    const readable = await makeUnreadable(path, blocks);
    t.ok(readable < blocks * 8192 - 4096, `only ${readable} bytes can be read`);
    const outcome = await pulled(path).then(
      (bytes) => bytes.length,
      (error: Error) => error,
    );
    t.type(outcome, Error, `${blocks} blocks`);
  }
});
