// Page maps of VMMs: where the memory of a guest is, and which of its pages were written.
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { addChangedRanges, findMapping, PAGE_BYTES } from '../../../../host-agent/src/engines/mapping.ts';

t.test('a mapping is found by its file, deleted or not', async (t) => {
  const maps = [
    '55d0c0000000-55d0c0100000 r-xp 00000000 fe:00 123                        /usr/bin/x',
    '7f0000000000-7f0020000000 rw-s 00000000 fe:00 9                          /t/memory',
    '7f1000000000-7f1020000000 rw-p 00000000 fe:00 9                          /t/memory (deleted)',
    '7f2000000000-7f2000001000 rw-p 00000000 00:00 0 ',
  ].join('\n');
  t.match(findMapping(maps, '/t/memory'), {
    startAddress: 0x7f1000000000,
    sizeBytes: 0x20000000,
    fileOffset: 0,
  });
  t.equal(findMapping(maps, '/t/other'), undefined);
});

t.test('changed ranges cover every page of the process’s own, and little else', async () => {
  const page = fc.constantFrom('absent', 'file', 'own', 'swapped');
  // Also long runs, of which whole blocks are skipped.
  const run = fc.tuple(page, fc.constantFrom(1, 1, 1, 2, 9, 511, 512, 700));
  fc.assert(
    fc.property(fc.array(run, { maxLength: 100 }), (runs) => {
      const pages = runs.flatMap(([kind, count]) => Array.from({ length: count }, () => kind));
      const pagemap = Buffer.alloc(pages.length * 8);
      pages.forEach((kind, index) => {
        const high = { absent: 0, file: 0xa000_0000, own: 0x8000_0000, swapped: 0x4000_0000 }[kind];
        pagemap.writeUInt32LE(high, index * 8 + 4);
      });
      const ranges = addChangedRanges([], pagemap);
      const half = Math.floor(pages.length / 1024) * 512;
      const parts = addChangedRanges([], pagemap.subarray(0, half * 8));
      if (!isDeepStrictEqual(addChangedRanges([...parts], pagemap.subarray(half * 8), half), ranges))
        return false;
      const covered = new Set<number>();
      let end = -1;
      for (const { offset, length } of ranges) {
        if (offset <= end) return false;
        end = offset + length;
        for (let at = offset; at < end; at += PAGE_BYTES) covered.add(at / PAGE_BYTES);
        // A range begins and ends with a changed page.
        for (const edge of [offset / PAGE_BYTES, end / PAGE_BYTES - 1]) {
          if (pages[edge] !== 'own' && pages[edge] !== 'swapped') return false;
        }
      }
      return pages.every((kind, index) => (kind !== 'own' && kind !== 'swapped') || covered.has(index));
    }),
  );
});
