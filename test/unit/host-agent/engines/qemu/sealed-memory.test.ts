// Memory that forks share: it has the file's content and holes, is immutable, and is freed with the last fork.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  existsSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { SealedMemories } from '../../../../../host-agent/src/engines/qemu/sealed-memory.ts';
import { compileGuestProgram } from '../../../../support/guest-program.ts';
import { HELPERS } from '../../../../support/helper-programs.ts';
import { until } from '../../../../support/until.ts';

const MIB = 2 ** 20;
const dir = mkdtempSync(join(tmpdir(), 'sealed-'));
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
const content = randomBytes(3 * MIB);

/** 64 MiB with data in the middle. */
function makeFile(name: string): string {
  const path = join(dir, name);
  writeFileSync(path, '');
  truncateSync(path, 64 * MIB);
  const fd = openSync(path, 'r+');
  writeSync(fd, content, 0, content.length, 30 * MIB);
  closeSync(fd);
  return path;
}

t.test('it has the content and the holes of the file', async (t) => {
  const memories = new SealedMemories(HELPERS.memfd);
  const path = makeFile('one');
  t.equal(await memories.neededBytes(path), fstatSync(openSync(path, 'r')).blocks * 512);
  const { fd, release } = await memories.hold(path);
  t.same(readFileSync(`/proc/self/fd/${fd}`), readFileSync(path));
  t.ok(
    memories.sizeBytes >= 3 * MIB && memories.sizeBytes < 4 * MIB,
    `${memories.sizeBytes} bytes are allocated`,
  );
  t.equal(await memories.neededBytes(path), 0);
  release();
});

t.test('it cannot be changed, and any process can map it privately', async (t) => {
  await compileGuestProgram('write-attack', dir);
  chmodSync(dir, 0o755);
  const memories = new SealedMemories(HELPERS.memfd);
  const { fd, release } = await memories.hold(makeFile('two'));
  const attack = (options = {}) =>
    execFileSync(join(dir, 'write-attack'), ['/dev/fd/3'], {
      stdio: ['ignore', 'pipe', 'inherit', fd],
      encoding: 'utf8',
      ...options,
    });
  t.equal(attack(), 'over\n', 'not root');
  t.equal(attack({ uid: 65_534, gid: 65_534 }), 'over\n', 'nor another user');
  const found = Buffer.alloc(content.length);
  readSync(fd, found, 0, found.length, 30 * MIB);
  t.ok(found.equals(content));
  release();
  // Proof that the attack works: this file of the same kind is not sealed.
  t.match(
    execFileSync(join(dir, 'write-attack'), [makeFile('open')], { encoding: 'utf8' }),
    /^truncating open worked\npwrite worked\n.*shared mapping worked\n/s,
  );
});

t.test('it exists once for all at the same time, and goes a while after the last', async (t) => {
  const memories = new SealedMemories(HELPERS.memfd, 20);
  const path = makeFile('three');
  const held = await Promise.all([1, 2, 3].map(() => memories.hold(path)));
  t.equal(new Set(held.map(({ fd }) => fd)).size, 1);
  held[0]!.release();
  held[0]!.release();
  held[1]!.release();
  await sleep(50);
  t.ok(memories.sizeBytes > 0, 'one holds it');
  held[2]!.release();
  const again = await memories.hold(path);
  await sleep(50);
  t.equal(again.fd, held[0]!.fd, 'who came back in time has the same');
  t.ok(fstatSync(again.fd), 'for as long as it is held');
  again.release();
  while (memories.sizeBytes > 0) await sleep(5);
  t.throws(() => fstatSync(again.fd), { code: 'EBADF' });

  await t.test('a file in place of another has its own', async (t) => {
    const before = await memories.hold(path);
    rmSync(path);
    const after = await memories.hold(makeFile('three'));
    t.not(after.fd, before.fd);
    before.release();
    after.release();
  });
});

t.test('a failure to make it is reported, and the next call tries again', async (t) => {
  const program = join(dir, 'memfd');
  const memories = new SealedMemories(program);
  await t.rejects(memories.hold(join(dir, 'missing')), { code: 'ENOENT' });
  t.equal(await memories.neededBytes(join(dir, 'missing')), 0);
  const path = makeFile('four');
  await t.rejects(memories.hold(path), {
    code: 'internal',
    message: /cannot hold the saved memory .*ENOENT/,
  });
  writeFileSync(program, '#!/bin/sh\necho "copy: Cannot allocate memory" >&2; exit 1\n', {
    mode: 0o755,
  });
  await t.rejects(memories.hold(path), { code: 'exhausted', message: /Cannot allocate memory/ });
  t.equal(memories.sizeBytes, 0);
  const failing = async (script: string) => {
    writeFileSync(program, `#!/bin/sh\n${script}\n`);
    return await memories.hold(path).catch((error) => error);
  };
  const prefix = `cannot hold the saved memory ${path}: `;
  t.match(await failing('echo "  write: No space left on device" >&2; exit 1'), {
    code: 'exhausted',
    message: `${prefix}write: No space left on device`,
    details: { stage: 'restore' },
    cause: Error,
  });
  t.match(await failing('exit 3'), { code: 'internal', message: `${prefix}its maker ended with 3` });
  t.match(await failing('kill -9 $$'), {
    code: 'exhausted',
    message: `${prefix}its maker ended with SIGKILL`,
  });
});

t.test('what could not be had once, and is let go of late, takes nothing from others', async (t) => {
  const program = join(dir, 'again');
  const memories = new SealedMemories(program, 1);
  const path = makeFile('six');
  await t.rejects(memories.hold(path), { code: 'internal' });
  symlinkSync(HELPERS.memfd, program);
  const { fd, release } = await memories.hold(path);
  await sleep(20);
  t.ok(memories.sizeBytes > 0);
  t.ok(fstatSync(fd));
  release();
  while (memories.sizeBytes > 0) await sleep(5);
});

t.test('its maker may take its time to say where it is', async (t) => {
  const program = join(dir, 'slow');
  const path = makeFile('five');
  const over = join(dir, 'over');
  const script = `exec 12<"$2"; printf 1; sleep 0.1; printf "2\\n"; read rest; : > '${over}'`;
  writeFileSync(program, `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  const { fd, origin, release } = await new SealedMemories(program).hold(path);
  t.equal(fstatSync(fd).ino, fstatSync(openSync(path, 'r')).ino);
  t.equal(origin.path, path);
  await until(() => existsSync(over), 'the end of its maker');
  release();
});
