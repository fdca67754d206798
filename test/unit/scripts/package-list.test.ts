// Lists of Debian packages, as the builds read them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ARCHITECTURE } from '@sandboxd/proto';
import t from 'tap';
import { readPackageList } from '../../../scripts/package-list.ts';

const dir = mkdtempSync(join(tmpdir(), 'package-list-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const path = join(dir, 'list.txt');
writeFileSync(
  path,
  `# A list.
before  1.0  1.1  in no section
# [run]
here[${ARCHITECTURE.name}]  2.0  2.1  of this architecture
elsewhere[riscv64]  2.0  2.1  of another one
# a comment
lib-a1.2+b  1:3.0  3.1  of any
# [build]
later  4.0  4.1  of another section
`,
);

t.test('packages for this architecture, of a section or of all', async (t) => {
  const run = [
    { name: 'here', oldest: '2.0' },
    { name: 'lib-a1.2+b', oldest: '1:3.0' },
  ];
  t.same(readPackageList(path, 'run'), run);
  t.same(readPackageList(path), [
    { name: 'before', oldest: '1.0' },
    ...run,
    { name: 'later', oldest: '4.0' },
  ]);
});
