// Disks of snapshots, compared by the program itself: real ext4 layers above ext4 and EROFS images, made by Linux's own
// overlayfs, with journals that were not replayed.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Converter } from '../../../../../host-agent/src/images/converter.ts';
import { AppError } from '../../../../../host-agent/src/lib/errors.ts';
import {
  type ComparePosition,
  type Difference,
  DiskComparer,
} from '../../../../../host-agent/src/sandboxes/saved/compare-disks.ts';
import type { SavedGuest } from '../../../../../host-agent/src/sandboxes/saved/saved-guest.ts';
import { HELPERS } from '../../../../support/helper-programs.ts';

t.setTimeout(300_000);

const run = (script: string, cwd: string) =>
  execFileSync('sh', ['-euc', script], { cwd, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
const comparer = new DiskComparer({ program: HELPERS.diffdisks, jail: undefined });
const LAYER =
  'mke2fs -q -F -t ext4 -b 4096 -I 256 -m 0 -O has_journal,^resize_inode,metadata_csum,^orphan_file -J size=4 ' +
  '-E assume_storage_prezeroed=1,nodiscard';
const OVERLAY = 'redirect_dir=on,xino=on,metacopy=off,index=off,volatile';

type Disks = { readonly layer: string; readonly root: string; readonly agent?: string };

/** A saved guest with these disks. */
function guestOf({ layer, root, agent }: Disks, leaving = new AbortController().signal): SavedGuest {
  const rootfs = { rootfsPath: root, ...(agent && { agentPath: agent }) };
  return {
    diskPath: layer,
    manifest: { options: { rootfs } },
    leaving,
    use: <T>(task: () => Promise<T>) => task(),
  } as unknown as SavedGuest;
}

type Options = Partial<ComparePosition> & { readonly signal?: AbortSignal };

function compare(from: SavedGuest, to: SavedGuest, { signal, ...page }: Options = {}) {
  const toGuest = (id: string) => (id === 'from' ? from : to);
  const position = { limit: 10_000, ...page, from: 'from', to: 'to' };
  return comparer.compare(position, toGuest, signal ?? new AbortController().signal);
}

const LETTERS = { file: '-', directory: 'd', symlink: 'l' } as Readonly<Record<string, string>>;

/** Such as `M -/etc/hosts content`. */
function show({ path, before, after, differs }: Difference): string {
  const letter = before === undefined ? 'A' : after === undefined ? 'D' : 'M';
  const kind = LETTERS[(after ?? before)?.kind ?? ''] ?? '?';
  return `${letter} ${kind}${path.toString()} ${differs.join(',')}`.trim();
}

/** A directory in which the script mounts an overlay at `root`, and copies the layer to `before` and `after`. */
function makeDisks(t: Test, { lower, change }: { readonly lower: string; readonly change: string }): string {
  const dir = t.testdir();
  const script = `
    mkdir lower below layer root tree
    (cd tree; ${lower})
    truncate -s 64M root.img; mke2fs -q -F -t ext4 -d tree root.img
    truncate -s 128M disk; ${LAYER} disk
    mount -o loop,ro,noload root.img below
    mount -o loop disk layer
    mkdir layer/upper layer/work
    mount -t overlay overlay -o lowerdir=below,upperdir=layer/upper,workdir=layer/work,${OVERLAY} root
    save() { sync -f layer/upper; cp --sparse=always disk "$1"; }
    ${change}`;
  try {
    run(script, dir);
  } finally {
    for (const mount of ['root', 'layer', 'below']) run(`! mountpoint -q ${mount} || umount ${mount}`, dir);
  }
  return dir;
}

const LOWER = `
  mkdir -p etc usr/share/doc bin empty
  echo a > etc/a; echo b > etc/b; echo same > etc/same; echo x > usr/share/doc/x
  echo tool > bin/tool; ln -s tool bin/t`;

t.test('what was done above a root image', async (t) => {
  const dir = makeDisks(t, {
    lower: LOWER,
    change: `
      cd root
      echo one > one; mkdir -p new/deep; echo 1 > new/deep/f; head -c 3000000 /dev/urandom | tr X Y > big
      truncate -s 40G sparse; ln -s somewhere link; mkfifo pipe; echo kept > kept
      cd ..; save before; cd root
      rm etc/a; echo changed > etc/b; chmod 600 one; mv usr usr2; echo more >> usr2/share/doc/x
      rm -r bin; mkdir bin; echo z > bin/z
      rm new/deep/f; mkdir new/deep/f; echo in > new/deep/f/in; chown 5:6 new
      printf X | dd of=big bs=1 seek=1500000 conv=notrunc status=none
      printf X | dd of=sparse bs=1 seek=30000000000 conv=notrunc status=none
      ln -sfn elsewhere link; setfattr -n user.note -v hello kept 2>/dev/null || setcap cap_net_raw+ep kept
      touch -d 2001-01-01 pipe; echo same > etc/same; chmod 700 empty
      printf 'n' > "$(printf 'line\\nbreak')"; printf 'n' > "$(printf 'not\\377utf8')"
      cd ..; save after`,
  });
  const disks = (name: string) => guestOf({ layer: join(dir, name), root: join(dir, 'root.img') });
  const { files, next } = await compare(disks('before'), disks('after'));
  t.equal(next, undefined);
  t.same(files.map(show), [
    'M -/big content',
    'D l/bin/t',
    'D -/bin/tool',
    'A -/bin/z',
    'M d/empty mode',
    'D -/etc/a',
    'M -/etc/b content',
    'M -/kept xattrs',
    'A -/line\nbreak',
    'M l/link content',
    'M d/new owner',
    'M d/new/deep/f kind,content,mode',
    'A -/new/deep/f/in',
    'A -/not\ufffdutf8',
    'M -/one mode',
    'M -/sparse content',
    'D d/usr',
    'D d/usr/share',
    'D d/usr/share/doc',
    'D -/usr/share/doc/x',
    'A d/usr2',
    'A d/usr2/share',
    'A d/usr2/share/doc',
    'A -/usr2/share/doc/x',
  ]);
  t.match(files[0], { before: { kind: 'file', mode: 0o644, uid: 0, gid: 0, sizeBytes: 3_000_000 } });
  t.match(files[10], { before: { uid: 0, gid: 0 }, after: { uid: 5, gid: 6, sizeBytes: undefined } });
  t.same(files[13]?.path, Buffer.from('/not\xffutf8', 'latin1'));

  await t.test('the other way round, and with itself', async (t) => {
    const back = await compare(disks('after'), disks('before'));
    const turned = files
      .map(show)
      .map((line) => line.replace(/^[AD]/, (letter) => (letter === 'A' ? 'D' : 'A')));
    t.same(
      back.files.map(({ path }) => path),
      files.map(({ path }) => path),
    );
    t.same(new Set(back.files.map(show).map((line) => line[0])), new Set(turned.map((line) => line[0])));
    t.same((await compare(disks('after'), disks('after'))).files, []);
  });

  await t.test('in pages of each size', async (t) => {
    for (const limit of [1, 3, 7, 23, 24]) {
      const all: Difference[] = [];
      for (let after: Buffer | undefined; ; ) {
        const page = await compare(disks('before'), disks('after'), { limit, after });
        all.push(...page.files);
        t.ok(page.files.length <= limit);
        after = page.next;
        if (after === undefined) break;
      }
      t.same(all, files, `pages of ${limit}`);
    }
    const gone = await compare(disks('before'), disks('after'), { after: Buffer.from('/usr/none/x') });
    t.equal(gone.files[0] && show(gone.files[0]), 'D d/usr/share');
  });

  await t.test('with a guest that has never booted, and one of another root image', async (t) => {
    run(`truncate -s 128M empty; ${LAYER} empty; mkdir other; cp -a tree/. other; rm -r other/usr`, dir);
    run('echo new > other/etc/new; truncate -s 64M other.img; mke2fs -q -F -t ext4 -d other other.img', dir);
    const fresh = guestOf({ layer: join(dir, 'empty'), root: join(dir, 'root.img') });
    const since = (await compare(fresh, disks('before'))).files.map(show);
    t.same(since[0], 'A -/big');
    t.ok(
      since.every((line) => line.startsWith('A ')),
      since.join('\n'),
    );
    const other = guestOf({ layer: join(dir, 'empty'), root: join(dir, 'other.img') });
    const lines = (await compare(fresh, other)).files.map(show);
    t.same(lines, ['A -/etc/new', 'D d/usr', 'D d/usr/share', 'D d/usr/share/doc', 'D -/usr/share/doc/x']);
  });

  await t.test('damage is an error, or what is left; the program ends in every case', async (t) => {
    run('cp --sparse=always after damaged', dir);
    // Superblock, group descriptors, bitmaps, inodes, directories and the journal are at the beginning.
    const spans = [4096, 16_384, 1 << 20, 6 << 20];
    const pristine = Buffer.alloc(6 << 20);
    await using file = await open(join(dir, 'damaged'), 'r+');
    await file.read(pristine, 0, pristine.length, 0);
    let random = 42;
    const next = (below: number) => {
      random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
      return Math.floor((random / 2 ** 32) * below);
    };
    const found = { fine: 0, refused: 0 };
    for (let round = 0; round < 40; round++) {
      const bytes = Buffer.from(pristine);
      const span = spans[round % spans.length] ?? 0;
      for (let i = 0; i < 200; i++) bytes[next(span)] = next(256);
      await file.write(bytes, 0, bytes.length, 0);
      try {
        await compare(disks('before'), disks('damaged'));
        found.fine += 1;
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'conflict') throw error;
        found.refused += 1;
      }
    }
    t.ok(found.refused > 10, JSON.stringify(found));
  });

  await t.test('errors', async (t) => {
    writeFileSync(join(dir, 'text'), 'no disk');
    await t.rejects(compare(disks('text'), disks('after')), {
      code: 'conflict',
      message: /the disk of the first snapshot: /,
    });
    await t.rejects(compare(disks('before'), disks('none')), { code: 'ENOENT' });
    const gone = AbortSignal.abort(new Error('bye'));
    await t.rejects(compare(disks('before'), disks('after'), { signal: gone }), { message: 'bye' });
    const leaving = guestOf({ layer: join(dir, 'before'), root: join(dir, 'root.img') }, AbortSignal.abort());
    await t.rejects(compare(leaving, disks('after')), { code: 'not_found' });
  });
});

t.test('names and directories that Linux would not make', async (t) => {
  const dir = t.testdir({ tree: { a: { b: { c: '' } }, name: 'n' } });
  run(
    `truncate -s 64M root.img; mkdir none; mke2fs -q -F -t ext4 -d none root.img
     mkdir up; mv tree up/upper; truncate -s 64M plain; ${LAYER} -d up plain`,
    dir,
  );
  const guest = (name: string) => guestOf({ layer: join(dir, name), root: join(dir, 'root.img') });
  const debug = (name: string, ...commands: string[]) => {
    copyFileSync(join(dir, 'plain'), join(dir, name));
    for (const command of commands) run(`debugfs -w -R '${command}' ${name} 2>&1`, dir);
  };
  debug('loop', 'link upper/a upper/a/b/loop');
  await t.rejects(compare(guest('plain'), guest('loop')), { code: 'conflict', message: /two names/ });
  debug('huge', 'set_inode_field upper/name size 9000000000000000');
  t.same((await compare(guest('plain'), guest('huge'))).files.map(show), ['M -/name content']);
  debug('redirect', 'ea_set upper/a trusted.overlay.redirect /../../etc');
  await t.rejects(compare(guest('plain'), guest('redirect')), { code: 'conflict', message: /redirect/ });
  debug('file', 'set_inode_field upper/a mode 0100644');
  await t.resolves(compare(guest('plain'), guest('file')));
  // The name is in the directory's block as such; without checksums Linux takes it.
  run('tune2fs -O ^metadata_csum plain >/dev/null 2>&1', dir);
  const bytes = readFileSync(join(dir, 'plain'));
  const at = bytes.indexOf('name');
  for (const [text, message] of [
    ['na/e', /invalid name/],
    ['na\0e', /invalid name/],
    ['a\0\0\0', /invalid name/],
  ] as const) {
    bytes.write(text, at, 'latin1');
    writeFileSync(join(dir, 'odd'), bytes);
    await t.rejects(
      compare(guest('plain'), guest('odd')),
      { code: 'conflict', message },
      JSON.stringify(text),
    );
  }
});

t.test('above an EROFS image, and an agent between them', async (t) => {
  const dir = t.testdir();
  mkdirSync(join(dir, 'src'));
  const many = Array.from({ length: 400 }, (_, i) => `echo ${i} > many/file-${i}`).join('\n');
  run(
    `cd src; ${LOWER}; mkdir many; ${many}
     head -c 100000 /dev/urandom > blocks; printf x | dd of=holes bs=1 seek=200000 status=none
     tar --sort=name -cf ../layer.tar .; cd ..
     mkdir agent; mkdir agent/.sandbox; echo agent > agent/.sandbox/agent
     truncate -s 16M agent.img; mke2fs -q -F -t ext4 -d agent agent.img`,
    dir,
  );
  await convert(join(dir, 'layer.tar'), join(dir, 'root.erofs'));
  run(
    `mkdir -p up/upper/etc up/upper/many old/upper; truncate -s 64M before after
     mknod up/upper/bin c 0 0; mknod up/upper/many/file-7 c 0 0; mknod up/upper/.sandbox c 0 0
     cp -a src/blocks up/upper/blocks; echo new > up/upper/etc/a; cp -a src/holes up/upper/holes
     ${LAYER} -d old before; ${LAYER} -d up after`,
    dir,
  );
  const guest = (name: string) =>
    guestOf({ layer: join(dir, name), root: join(dir, 'root.erofs'), agent: join(dir, 'agent.img') });
  const { files } = await compare(guest('before'), guest('after'));
  t.same(files.map(show), [
    'D d/.sandbox',
    'D -/.sandbox/agent',
    'D d/bin',
    'D l/bin/t',
    'D -/bin/tool',
    'M -/etc/a content',
    'D -/many/file-7',
  ]);
  // The same tree as ext4 differs in nothing.
  run(
    'truncate -s 64M root.img; mke2fs -q -F -t ext4 -d src root.img; debugfs -w -R "rmdir lost+found" root.img',
    dir,
  );
  const other = guestOf({
    layer: join(dir, 'before'),
    root: join(dir, 'root.img'),
    agent: join(dir, 'agent.img'),
  });
  t.same((await compare(guest('before'), other)).files.map(show), []);
});

/** As the daemon makes an image of a layer. */
async function convert(layer: string, image: string): Promise<void> {
  const converter = new Converter({ runtime: process.execPath, script: HELPERS.converter });
  await converter.convert({ layers: [{ path: layer }], imagePath: image });
}
