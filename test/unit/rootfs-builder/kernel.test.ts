// The guest kernel's parts: kernel extraction, ELF reading, module order, the cpio writer.
import { spawnSync } from 'node:child_process';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { ARCHITECTURES } from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { FILE_TYPE, writeCpio } from '../../../rootfs-builder/src/kernel/cpio.ts';
import { findSection, hasPvhNote } from '../../../rootfs-builder/src/kernel/elf.ts';
import {
  formatModuleList,
  orderModules,
  readModuleDependencies,
  stripModuleSignature,
} from '../../../rootfs-builder/src/kernel/modules.ts';
import { extractVmlinux } from '../../../rootfs-builder/src/kernel/vmlinux.ts';

/** A 64-bit ELF file with one PT_NOTE segment and the given sections. */
function makeElf(options: { noteType?: number; sections?: Record<string, Buffer> } = {}): Buffer {
  const note = Buffer.alloc(24);
  note.writeUInt32LE(4, 0);
  note.writeUInt32LE(8, 4);
  note.writeUInt32LE(options.noteType ?? 18, 8);
  note.write('Xen\0', 12);
  const bodies = Object.entries({ '': Buffer.alloc(0), ...options.sections });
  const names = Buffer.from(`${[...bodies.map(([name]) => name), '.shstrtab'].join('\0')}\0`);
  bodies.push(['.shstrtab', names]);
  const header = Buffer.alloc(64 + 56);
  header.write('\x7fELF\x02\x01', 0, 'latin1');
  header.writeBigUInt64LE(64n, 0x20);
  header.writeUInt16LE(56, 0x36);
  header.writeUInt16LE(1, 0x38);
  header.writeUInt32LE(4, 64);
  header.writeBigUInt64LE(BigInt(header.length), 64 + 0x08);
  header.writeBigUInt64LE(BigInt(note.length), 64 + 0x20);
  let offset = header.length + note.length;
  let nameAt = 0;
  const headers = bodies.map(([name, body]) => {
    const entry = Buffer.alloc(64);
    entry.writeUInt32LE(nameAt, 0);
    entry.writeBigUInt64LE(BigInt(offset), 0x18);
    entry.writeBigUInt64LE(BigInt(body.length), 0x20);
    nameAt += name.length + 1;
    offset += body.length;
    return entry;
  });
  header.writeBigUInt64LE(BigInt(offset), 0x28);
  header.writeUInt16LE(64, 0x3a);
  header.writeUInt16LE(headers.length, 0x3c);
  header.writeUInt16LE(headers.length - 1, 0x3e);
  return Buffer.concat([header, note, ...bodies.map(([, body]) => body), ...headers]);
}

function makeBzImage(payload: Buffer): Buffer {
  const image = Buffer.alloc(3 * 512 + 16);
  image[0x1f1] = 2;
  image.write('HdrS', 0x202, 'latin1');
  image.writeUInt16LE(0x020f, 0x206);
  image.writeUInt32LE(16, 0x248);
  image.writeUInt32LE(payload.length, 0x24c);
  return Buffer.concat([image, payload, Buffer.from('behind the payload')]);
}

const { x64, arm64 } = ARCHITECTURES;

t.test('a kernel comes out of a bzImage in every compression', async (t) => {
  const elf = makeElf({ sections: { '.text': Buffer.alloc(5000, 'kernel ') } });
  const size = Buffer.alloc(4);
  size.writeUInt32LE(elf.length);
  const payloads = {
    none: elf,
    gzip: gzipSync(elf),
    zstd: Buffer.concat([zstdCompressSync(elf), size]),
    lz4: Buffer.concat([spawnSync('lz4', ['-lcq'], { input: elf }).stdout, size]),
    xz: Buffer.concat([spawnSync('xz', ['-c', '--check=crc32'], { input: elf }).stdout, size]),
  };
  for (const [name, payload] of Object.entries(payloads)) {
    t.ok(extractVmlinux(makeBzImage(payload), x64).equals(elf), name);
  }
  t.ok(extractVmlinux(elf, x64).equals(elf), 'an ELF file passes through');
});

t.test('a kernel for arm64 is its image, as it is or compressed', async (t) => {
  const image = Buffer.alloc(4096, 'code');
  image.write('ARM\x64', 0x38, 'latin1');
  t.ok(extractVmlinux(image, arm64).equals(image));
  t.ok(extractVmlinux(gzipSync(image), arm64).equals(image));
  t.throws(() => extractVmlinux(gzipSync(image).subarray(0, 30), arm64), { code: 'kernel_format' });
  t.throws(() => extractVmlinux(image, x64), { code: 'kernel_format', message: /not one for x86-64/ });
  t.throws(() => extractVmlinux(makeElf(), arm64), { code: 'kernel_format', message: /not one for arm64/ });
});

t.test('an unusable kernel image is refused with the reason', async (t) => {
  const cut = makeBzImage(gzipSync(makeElf())).subarray(0, 3 * 512 + 40);
  const refused: [Buffer, RegExp][] = [
    [Buffer.alloc(10), /neither a bzImage nor an ELF/],
    [makeElf({ noteType: 1 }), /no PVH entry/],
    [makeBzImage(gzipSync(Buffer.alloc(100))), /not a 64-bit ELF/],
    [makeBzImage(Buffer.from('unknown compression')), /unknown way/],
    [makeBzImage(Buffer.from([0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8])), /does not decompress/],
    [makeBzImage(Buffer.concat([zstdCompressSync(makeElf()), Buffer.alloc(4)])), /bytes instead of 0/],
    [makeBzImage(Buffer.from([0x02, 0x21, 0x4c, 0x18, 255, 0, 0, 0, 9, 9, 9, 9])), /lz4 cannot decompress/],
    [cut, /outside the file/],
  ];
  for (const [image, pattern] of refused) {
    t.throws(() => extractVmlinux(image, x64), { code: 'kernel_format', message: pattern });
  }
});

t.test('ELF sections and notes are found', async (t) => {
  const module = makeElf({
    sections: { '.modinfo': Buffer.from('license=GPL\0depends=virtio,virtio-ring\0name=x\0') },
  });
  t.same(readModuleDependencies(module), ['virtio', 'virtio_ring']);
  t.same(readModuleDependencies(makeElf()), []);
  t.equal(findSection(module, '.absent'), undefined);
  t.equal(hasPvhNote(module), true);
  t.equal(hasPvhNote(Buffer.from('not an ELF file')), false);
});

t.test('signatures are cut off, and nothing else', async (t) => {
  const body = makeElf();
  const record = Buffer.alloc(12);
  record.writeUInt32BE(5, 8);
  const signed = Buffer.concat([
    body,
    Buffer.from('12345'),
    record,
    Buffer.from('~Module signature appended~\n'),
  ]);
  t.ok(stripModuleSignature(signed).equals(body));
  t.ok(stripModuleSignature(body).equals(body));
});

t.test('modules are loaded behind what they depend on, when one of their users is', async (t) => {
  const graph: Record<string, string[]> = {
    blk: ['virtio'],
    net: ['virtio', 'failover'],
    virtio: [],
    failover: [],
  };
  const wishes = [
    { name: 'net', when: 1 },
    { name: 'blk', when: 'always' as const },
    { name: 'builtin', when: 'always' as const },
  ];
  const modules = orderModules(wishes, (name) => graph[name]);
  t.equal(formatModuleList(modules), 'virtio.ko\nfailover.ko 1\nnet.ko 1\nblk.ko\n');
  t.throws(() => orderModules(wishes, () => ['net']), {
    code: 'module_missing',
    message: /depend on each other/,
  });
});

t.test('any dependency graph without circles is ordered, each module once', async () => {
  const graphs = fc.array(fc.array(fc.nat(20), { maxLength: 4 }), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(graphs, (edges) => {
      // Module n may depend only on smaller numbers.
      const dependencies = (name: string) =>
        edges[Number(name)]?.filter((to) => to < Number(name)).map(String);
      const order = orderModules(
        edges.map((_, index) => ({ name: String(index), when: 'always' as const })),
        dependencies,
      ).map(({ name }) => name);
      const isOrdered = order.every((name, at) => dependencies(name)?.every((to) => order.indexOf(to) < at));
      return isOrdered && new Set(order).size === edges.length && order.length === edges.length;
    }),
  );
});

t.test('cpio reads back what was written, and the same entries give the same bytes', async (t) => {
  const entries = [
    { path: 'dir', mode: FILE_TYPE.directory | 0o755 },
    { path: 'dir/file', mode: FILE_TYPE.file | 0o444, content: Buffer.from('content') },
    { path: 'console', mode: FILE_TYPE.characterDevice | 0o600, device: [5, 1] as [number, number] },
  ];
  const archive = writeCpio(entries);
  t.ok(archive.equals(writeCpio(entries)));
  t.equal(archive.toString('latin1', 0, 6), '070701');
  t.match(archive.toString('latin1'), /TRAILER!!!/);
  // Fields are 8 hex digits after the magic: check the file's mode, size and name length.
  const at = archive.indexOf('dir/file') - 110;
  const field = (index: number) =>
    Number.parseInt(archive.toString('latin1', at + 6 + index * 8, at + 14 + index * 8), 16);
  t.equal(field(1), 0o100444);
  t.equal(field(6), 'content'.length);
  t.equal(field(11), 'dir/file'.length + 1);
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 5 }), (contents) => {
      const files = contents.map((content, index) => ({
        path: `f${index}`,
        mode: FILE_TYPE.file,
        content: Buffer.from(content),
      }));
      return writeCpio(files).length % 4 === 0;
    }),
  );
});
