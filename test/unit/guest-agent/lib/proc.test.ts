// Parsers of /proc files that several modules share.
import '../support/addon-dir.ts';
import t from 'tap';
import { parseMountTargets } from '../../../../guest-agent/src/boot/mounts.ts';
import { kibibyteField } from '../../../../guest-agent/src/machine/stats.ts';
import { parseUnifiedPath } from '../../../../guest-agent/src/reap/reaper.ts';

t.test('files of /proc are read', async (t) => {
  t.equal(kibibyteField('Rss:     12 kB\nPss_Anon:  7 kB\nPss:   9 kB\n', 'Pss'), 9 * 1024);
  t.equal(kibibyteField('', 'Pss'), 0);
  t.equal(parseUnifiedPath('1:name=x:/y\n0::/exec/12/sub (deleted)\n'), 'exec/12/sub');
  t.equal(parseUnifiedPath(''), '');
  t.strictSame(
    parseMountTargets('proc /proc proc rw 0 0\nx /a\\040b y rw 0 0\n\n'),
    new Set(['/proc', '/a\\040b']),
  );
});
