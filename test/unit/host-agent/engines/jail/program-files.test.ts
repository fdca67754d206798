// The files of a program that a jail must show.
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { findProgramFiles, parseLibraries } from '../../../../../host-agent/src/engines/jail/jail.ts';

t.test('libraries are found by what the dynamic loader says', async (t) => {
  const text = `	linux-vdso.so.1 (0x00007ffc1a5f2000)
	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f2c0a400000)
	libown.so => not found
	/lib64/ld-linux-x86-64.so.2 (0x00007f2c0a6f5000)
/lib/close.so (0x00007f2c0a6f6000)
 \t /lib/far.so (0x00007f2c0a6f7000)
error: see /lib/no.so (0x00007f2c0a6f8000)
	/lib/none.so (0x00007f2c0a6f9000) (deleted)
`;
  const loaded = ['/lib/x86_64-linux-gnu/libc.so.6', '/lib64/ld-linux-x86-64.so.2'];
  t.same(parseLibraries(text), [...loaded, '/lib/close.so', '/lib/far.so']);
  t.same(parseLibraries('	statically linked\n'), []);
});

t.test('a program comes with the directories of its libraries, under each of their names', async (t) => {
  const [program, ...directories] = await findProgramFiles('/usr/bin/env');
  t.equal(program, '/usr/bin/env');
  t.ok(directories.includes('/lib/x86_64-linux-gnu'));
  t.ok(directories.includes('/usr/lib/x86_64-linux-gnu'));
  t.ok(directories.includes('/lib64'));
  t.equal(new Set(directories).size, directories.length);
  for (const directory of directories) t.match(directory, /^\//);
});

t.test('a program without libraries comes alone', async (t) => {
  const script = fileURLToPath(import.meta.url);
  t.same(await findProgramFiles(script), [script]);
});
