// The program that compares disks, under sanitizers: disks with random damage, in their journal as well.
import { execFileSync, spawnSync } from 'node:child_process';
import { openSync, readFileSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

const PROGRAM = join(import.meta.dirname, '../../dist/sanitized/diffdisks');
const ROUNDS = 60;
/** What mke2fs and the first files write. */
const SPAN_BYTES = 6 << 20;

t.setTimeout(600_000);

/** Kind of the last record. */
function kindOf(output: Buffer): string {
  let kind = '';
  for (let at = 0; at < output.length; at += 4 + output.readUInt32LE(at))
    kind = String.fromCharCode(output.readUInt8(at + 4));
  return kind;
}

t.test('damaged disks are reported, and nothing is read that is not there', (t) => {
  const dir = t.testdir();
  const script = `
    mkdir none disk; truncate -s 16M root; mke2fs -q -F -t ext4 -d none root
    truncate -s 64M before; mke2fs -q -F -t ext4 -b 4096 -I 256 -O ^resize_inode,^orphan_file -J size=4 before
    cp --sparse=always before mounted; mount -o loop mounted disk; trap 'umount disk' EXIT
    mkdir -p disk/upper/a/b; echo text > disk/upper/a/b/file; head -c 300000 /dev/urandom > disk/upper/big
    ln -s a disk/upper/link; mknod disk/upper/gone c 0 0; mkdir disk/upper/moved
    setfattr -n trusted.overlay.redirect -v /a disk/upper/moved 2>/dev/null || true
    for i in $(seq 300); do echo $i > disk/upper/file-$i; done
    sync -f disk; rm disk/upper/file-7; sync -f disk
    cp --sparse=always mounted after`;
  execFileSync('sh', ['-euc', script], { cwd: dir });
  const [root, before, after] = ['root', 'before', 'after'].map((name) => openSync(join(dir, name), 'r+'));
  if (root === undefined || before === undefined || after === undefined) throw new Error('three disks');
  const run = () =>
    spawnSync(PROGRAM, ['1000', '1000000', '3,5', '4,5'], {
      env: { ASAN_OPTIONS: 'detect_leaks=0' },
      stdio: ['ignore', 'pipe', 'pipe', before, after, root],
      timeout: 200_000,
    });
  const fine = run();
  t.equal(kindOf(fine.stdout), 'E', fine.stderr.toString());
  t.ok(fine.stdout.includes('file-300'));
  t.notOk(fine.stdout.includes('gone'));
  t.notOk(fine.stdout.includes('file-7\0') || /file-7$/.test(fine.stdout.toString('latin1')));
  const pristine = Buffer.alloc(SPAN_BYTES);
  readSync(after, pristine, 0, pristine.length, 0);
  const used = Array.from({ length: SPAN_BYTES / 4096 }, (_, block) => block * 4096).filter((at) =>
    pristine.subarray(at, at + 4096).some((byte) => byte !== 0),
  );
  let random = 7;
  const next = (below: number): number => {
    random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((random / 2 ** 32) * below);
  };
  const kinds = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    const bytes = Buffer.from(pristine);
    for (let i = 0; i <= next(40); i++) bytes[(used[next(used.length)] ?? 0) + next(512)] = next(256);
    // Without checksums of metadata more of it is read.
    if (round % 2 === 0) bytes.writeUInt32LE(bytes.readUInt32LE(1024 + 100) & ~0x400, 1024 + 100);
    writeSync(after, bytes, 0, bytes.length, 0);
    const { status, signal, stdout, stderr } = run();
    if (status !== 0 && signal !== 'SIGXCPU') t.fail(`round ${round}: ${status} ${signal} ${stderr}`);
    kinds.add(kindOf(stdout));
  }
  for (const kind of kinds) t.ok(['E', 'M', 'd', 'l', ''].includes(kind), kind);
  t.ok(kinds.has('d'));
  t.equal(readFileSync(join(dir, 'root')).length, 16 << 20);
  t.end();
});
