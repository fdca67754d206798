// What layers add up to: whiteouts, links, later ones that win.
import t from 'tap';
import type { Member } from '../../guest-agent/support/tar-blocks.ts';
import { merge } from './merge.ts';

const file = (name: string, content = 'x'): Member => ({ name, content });
const directory = (name: string): Member => ({ name, flag: '5', mode: 0o755 });
const symlink = (name: string, target: string): Member => ({ name, flag: '2', target });
const link = (name: string, target: string): Member => ({ name, flag: '1', target });

t.test('a later layer replaces files, and adds to directories', async (t) => {
  const tree = merge([
    [directory('etc'), file('etc/a', '1'), file('etc/b', '22')],
    [directory('etc'), file('etc/a', '4444'), file('etc/c')],
  ]);
  t.same(tree, ['/etc/', '/etc/a 4', '/etc/b 2', '/etc/c 1']);
});

t.test('directories that no layer names are made', async (t) => {
  t.same(merge([[file('a/b/c')]]), ['/a/', '/a/b/', '/a/b/c 1']);
});

t.test('leading slashes, dots and doubled slashes are as if they were not there', async (t) => {
  t.same(merge([[file('/a//./b')]]), ['/a/', '/a/b 1']);
});

t.test('two dots take back the name before, whatever that is, and may lead to the root', async (t) => {
  const layers = [
    [file('b'), file('c/../d'), { name: 'l', flag: '2', target: 'x/y' }, file('l/../o'), file('e/f/../../g')],
    [file('x/../.wh.b', ''), { name: 'h', flag: '1', target: 'x/../d' }, { name: 'z/..', flag: '5' }],
  ];
  t.same(merge(layers), ['/d 1', '/g 1', '/h 1', '/l -> x/y', '/o 1']);
});

t.test('a whiteout hides a file, and a directory with all that is in it', async (t) => {
  t.same(
    merge([
      [file('a'), file('d/e/f'), file('k')],
      [file('.wh.a', ''), file('.wh.d', '')],
    ]),
    ['/k 1'],
  );
});

t.test('a whiteout hides nothing of its own layer, whatever the order', async (t) => {
  t.same(merge([[file('d/old')], [file('d/new'), file('.wh.d', '')]]), ['/d/', '/d/new 1']);
  t.same(merge([[file('d/old')], [file('.wh.d', ''), file('d/new')]]), ['/d/', '/d/new 1']);
  t.same(merge([[file('a')], [file('a', '22'), file('.wh.a', '')]]), ['/a 2']);
});

t.test('an opaque directory hides what lower layers have in it, and nothing of its own layer', async (t) => {
  const lower = [file('d/a'), file('d/s/b'), file('e')];
  t.same(merge([lower, [directory('d'), file('d/n'), file('d/.wh..wh..opq', '')]]), [
    '/d/',
    '/d/n 1',
    '/e 1',
  ]);
  t.same(merge([lower, [file('.wh..wh..opq', ''), file('n')]]), ['/n 1']);
  t.same(merge([lower, [file('e/.wh..wh..opq', ''), directory('e'), file('d/.wh..wh..opq', '')]]), [
    '/d/',
    '/e/',
  ]);
  t.same(merge([[symlink('l', 'd'), ...lower], [file('l/.wh..wh..opq', '')]]), ['/d/', '/e 1', '/l -> d']);
});

t.test('a whiteout of what is not there is nothing', async (t) => {
  t.same(merge([[file('a'), file('.wh.b', '')]]), ['/a 1']);
});

t.test('records of aufs are nowhere but where links of their layer lead to them', async (t) => {
  const kept = [file('.wh..wh.aufs', ''), directory('.wh..wh.plnk/'), file('.wh..wh.plnk/1.2', '22')];
  t.same(merge([[file('a'), ...kept, link('b/c', '/.wh..wh.plnk/1.2'), link('.wh..wh.plnk/1.3', 'a')]]), [
    '/a 1',
    '/b/',
    '/b/c 2',
  ]);
  t.throws(() => merge([kept, [link('d', '.wh..wh.plnk/1.2')]]), /is a hard link to .*, which is not there$/);
});

t.test('names lead through links of lower layers as they would in a process of that root', async (t) => {
  const lower = [
    directory('usr/lib'),
    symlink('lib', 'usr/lib'),
    symlink('abs', '/usr'),
    symlink('up', '../../usr'),
  ];
  const tree = merge([lower, [file('lib/a'), file('abs/b'), file('up/c')]]);
  t.same(tree, [
    '/abs -> /usr',
    '/lib -> usr/lib',
    '/up -> ../../usr',
    '/usr/',
    '/usr/b 1',
    '/usr/c 1',
    '/usr/lib/',
    '/usr/lib/a 1',
  ]);
});

t.test('a directory replaces a link to one, and a file replaces a directory', async (t) => {
  t.same(
    merge([
      [directory('usr'), symlink('lib', 'usr')],
      [directory('lib'), file('lib/a')],
    ]),
    ['/lib/', '/lib/a 1', '/usr/'],
  );
  t.same(merge([[file('d/a')], [file('d')]]), ['/d 1']);
});

t.test('hard links are one file, until a layer replaces a name of it', async (t) => {
  t.same(merge([[file('a', '333'), link('b', 'a')], [file('a', '1')]]), ['/a 1', '/b 3']);
  t.same(merge([[file('a', '333')], [link('b', '/a'), link('c', 'b')]]), ['/a 3', '/b 3', '/c 3']);
});

t.test('devices and fifos are kept', async (t) => {
  const devices: Member[] = [
    { name: 'null', flag: '3', patch: (header) => header.write('0000001', 329) },
    { name: 'disk', flag: '4' },
    { name: 'pipe', flag: '6' },
  ];
  t.same(merge([devices]), ['/disk block-device', '/null character-device', '/pipe fifo']);
});

t.test(
  'a device of the number 0:0 hides what is below, as the overlay would, and is not there itself',
  async (t) => {
    const zero = (name: string): Member => ({ name, flag: '3' });
    t.same(
      merge([
        [file('a'), file('b')],
        [zero('a'), zero('c')],
      ]),
      ['/b 1'],
    );
    t.throws(() => merge([[zero('.')]]), { message: /name of the root directory/ });
  },
);

t.test('names are bytes', async (t) => {
  const name = Buffer.from([0x61, 0xff, 0xfe, 0x80]).toString('latin1');
  t.same(merge([[file(name)], [file(`.wh.${name}`, ''), file('b')]]), ['/b 1']);
});
