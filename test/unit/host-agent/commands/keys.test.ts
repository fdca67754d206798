// `sandboxd keys` as it is built, for the keys of a fleet.
import { execFile } from 'node:child_process';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openKeyring } from '../../../http/keyed.ts';
import { ask, type Fleet, startFleet } from '../../../support/fleet/fleet.ts';
import { DAEMON_PROGRAM } from '../../../support/leftovers.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(240_000));

/** Each takes seconds on a busy machine. */
const runKeys = (...words: string[]) =>
  new Promise<{ code: number; stdout: string; stderr: string }>((settle) => {
    execFile(DAEMON_PROGRAM, ['keys', ...words], (error, stdout, stderr) =>
      settle({ code: Number(error?.code ?? 0), stdout, stderr }),
    );
  });

const statusOf = async (url: string, key: string) =>
  (await ask(url, 'GET', '/whoami', undefined, { authorization: `Bearer ${key}` })).status;

async function startHost(t: Test, fleet: Fleet) {
  const { authenticator, registry } = await openKeyring(t);
  return { registry, ...(await fleet.host('h0', { authenticator, sharedKeys: registry })) };
}

t.test('the command, from any machine that has a kubeconfig', async (t) => {
  const fleet = await startFleet(t);
  const { url, registry } = await startHost(t, fleet);
  const [, kubeconfig = '', , , , secret = ''] = fleet.joinFlags('operator');
  const at = ['--kubeconfig', kubeconfig, '--fleet-secret-file', secret];
  t.match(await runKeys('list', ...at), { code: 0, stdout: '', stderr: /the fleet has no keys/ });
  const made = await runKeys(
    'create',
    'ci',
    '--tenant',
    'ci',
    '--operations',
    'read',
    '--expires',
    '1d',
    ...at,
  );
  t.match(made, {
    code: 0,
    stdout: /^sbk_\S{32}\n$/,
    stderr: /valid from now on, for all hosts of the fleet/,
  });
  const key = made.stdout.trim();
  await until(() => registry.find(key).state === 'valid', 'the key');
  t.equal(await statusOf(url, key), 200);
  t.match(await runKeys('list', ...at), { stdout: /^NAME.*\nci +\w+ +valid +ci .*"read"/ });
  const [shown] = JSON.parse((await runKeys('list', '--json', ...at)).stdout);
  t.match(shown, { name: 'ci', fleet: true, tenant: 'ci', policy: { operations: ['read'] } });
  t.match(await runKeys('show', 'ci', ...at), { stdout: /"fleet": true/ });
  t.match(await runKeys('create', 'ci', ...at), { code: 1, stderr: /already; revoke it/ });
  t.match(await runKeys('revoke', 'ci', ...at), { code: 0, stdout: /^ci \(\w+\): revoked\n$/ });
  await until(() => registry.find(key).state === 'revoked', 'its end');
  t.match(await runKeys('revoke', 'ci', ...at), { code: 1, stderr: /no key "ci" that is not revoked/ });
  const wrong = join(t.testdir({ secret: 'the secret of another fleet, also long' }), 'secret');
  await chmod(wrong, 0o600);
  t.match(await runKeys('revoke', 'ci', '--kubeconfig', kubeconfig, '--fleet-secret-file', wrong), {
    code: 1,
    stderr: /warning: this secret did not make 1 ConfigMap of keys in the namespace sandboxd/,
  });
  t.match(await runKeys('list', '--kubeconfig', '', '--fleet-secret-file', ''), { code: 1, stdout: '' });
  t.match(await runKeys('list', '--kubeconfig', kubeconfig), {
    code: 2,
    stderr: /--fleet-secret-file is missing/,
  });
  t.match(await runKeys('list', '--fleet-namespace', 'x'), { code: 2, stderr: /--kubeconfig is missing/ });
  t.match(await runKeys('list', '--data-dir', '/nowhere', ...at), { code: 2, stderr: /give one of them/ });
  await fleet.api.stop();
  t.match(await runKeys('create', 'x', ...at), { code: 1, stdout: '', stderr: /cannot be reached/ });
});
