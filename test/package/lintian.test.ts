// What Debian's own checker says of the package.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { builtDeb } from './host.ts';

// It unpacks all, and reads it; more slowly beside others.
t.setTimeout(0);

t.test('lintian finds nothing', { timeout: 0 }, async (t) => {
  const { stdout } = await promisify(execFile)('lintian', [
    '--allow-root',
    '--fail-on',
    'none',
    await builtDeb(),
  ]);
  t.equal(stdout.trim(), '');
});
