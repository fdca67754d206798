// Extended attributes in what a guest says about files: what was asked for, in bounds, as text.
import { FILE_ATTRIBUTES, FILE_ENTRIES, type FileEntryInput } from '@sandboxd/proto';
import t from 'tap';
import { toDescriptions } from '../../../../host-agent/src/guest/file-description.ts';

const encode = (count: number, value = '') =>
  FILE_ATTRIBUTES.encode(
    Array.from({ length: count }, (_, at) => ({ name: Buffer.from(`n${at}`), value: Buffer.from(value) })),
  );
const listOf = (entries: readonly FileEntryInput[], attributes = true) =>
  toDescriptions(FILE_ENTRIES.decode(FILE_ENTRIES.encode(entries), 10_000), { depth: 1, attributes });
const named = (at: number, attributes: Uint8Array) => ({ path: Buffer.from(String(1e5 + at)), attributes });

t.test('attributes come only where they were asked for', async (t) => {
  const entries = [named(0, encode(2, 'x'))];
  t.same(
    listOf(entries)[0]?.attributes,
    new Map([
      ['n0', 'x'],
      ['n1', 'x'],
    ]),
  );
  t.equal(listOf(entries, false)[0]?.attributes, undefined);
  t.equal(listOf([named(0, Buffer.from('nonsense'))], false).length, 1, 'and are not read otherwise');
});

t.test('a guest cannot make the host build more of them than a list has', async (t) => {
  const violation = { name: 'ProtocolViolation' };
  t.throws(() => listOf([named(0, encode(129))]), violation, 'of one file');
  t.throws(() => listOf([named(0, Buffer.from('nonsense'))]), violation);
  const many = encode(128);
  t.equal(listOf(Array.from({ length: 156 }, (_, at) => named(at, many))).length, 156);
  t.throws(() => listOf(Array.from({ length: 157 }, (_, at) => named(at, many))), violation, 'of all files');
});

t.test('a name or value that is no text is left out', async (t) => {
  const attributes = FILE_ATTRIBUTES.encode([
    { name: Buffer.of(0xff), value: Buffer.from('a') },
    { name: Buffer.from('binary'), value: Buffer.of(0xff) },
    { name: Buffer.from(''), value: Buffer.from('a') },
    { name: Buffer.from('empty'), value: Buffer.alloc(0) },
  ]);
  t.same(listOf([named(0, attributes)])[0]?.attributes, new Map([['empty', '']]));
});
