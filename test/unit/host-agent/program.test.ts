// The executable as it was built.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t from 'tap';
import about from '../../../host-agent/package.json' with { type: 'json' };
import { DAEMON_PROGRAM } from '../../support/leftovers.ts';

t.test('it says its version and nothing else, not even that its code cache was refused', async (t) => {
  const { status, stdout, stderr } = spawnSync(DAEMON_PROGRAM, ['--version'], { encoding: 'utf8' });
  t.equal(stdout, `sandboxd ${about.version}\n`);
  t.equal(stderr, '');
  t.equal(status, 0);
});

t.test('it holds nothing that lets it fail on purpose', async (t) => {
  const program = readFileSync(DAEMON_PROGRAM);
  t.ok(program.includes('the timeout_s of a sandbox has passed'), 'its text can be found in it');
  t.notOk(program.includes('a fault was injected') || program.includes('TEST_FAULTS'));
});
