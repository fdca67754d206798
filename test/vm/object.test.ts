// Name, labels and environment of a sandbox on real guests: in commands, the service and forks, and over a daemon that is
// killed.
import t from 'tap';
import { runCommand } from '../support/command.ts';
import { Commands, textOf } from '../support/commands.ts';
import { makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { ServiceClient } from '../support/service.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const directories = await makeDirectories();
const options = { onExit: 'keep' } as const;
let daemon = await spawnDaemon(directories, options);
t.teardown(async () => {
  for (const { id } of await daemon.api.list()) await daemon.api.delete(id);
  await daemon.end();
  await removeDirectories(directories);
});
const ENV = { GREETING: 'two words', OWN: 'sandbox' };
const SHOW = 'echo "$GREETING,$OWN,$MORE"';
const { id } = await daemon.api.create({
  memory_mib: 128,
  name: 'web',
  labels: { app: 'shop', stage: 'test' },
  env: ENV,
  service: { cmd: ['sh', '-c', `${SHOW}; exec sleep 1000`], env: { MORE: 'service' } },
});

t.test('its environment is that of commands and of the service', async (t) => {
  const { api } = daemon;
  t.equal(await api.sh(id, SHOW), 'two words,sandbox,');
  t.equal(await api.sh(id, SHOW, { env: { OWN: 'request', MORE: '1' } }), 'two words,request,1');
  const commands = new Commands(api, id);
  const detached = await commands.sh(SHOW, { env: { MORE: 'detached' } });
  t.match(await commands.wait(detached), { result: { exit_code: 0 } });
  t.equal(textOf(await commands.lines(detached, '')), 'two words,sandbox,detached\n');
  await new ServiceClient(api, id).logged('two words,sandbox,service');
  t.match((await api.ask('getSandbox', { params: { id } })).env_names, ['GREETING', 'OWN']);
  const answer = await (await fetch(`${daemon.url}/sandboxes`)).text();
  t.notMatch(answer, 'two words', 'values are not shown');
});

t.test('a fork inherits it with the labels, not the name', async (t) => {
  const { api } = daemon;
  const snapshot = await api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`, {});
  const body = { labels: { stage: null, kind: 'fork' }, env: { OWN: 'fork', MORE: '2' } };
  const { sandboxes } = await api.ask('forkSnapshot', { params: { id: snapshot.id }, body });
  const [fork] = sandboxes;
  if (fork === undefined) throw new Error('there is no fork');
  t.same([fork.name, fork.labels], [undefined, { app: 'shop', kind: 'fork' }]);
  t.equal(await api.sh(fork.id, SHOW), 'two words,fork,2');
  t.equal(await api.sh(id, SHOW), 'two words,sandbox,', 'the source has its own');
  await api.delete(fork.id);
  await api.call('DELETE', `/snapshots/${snapshot.id}`);
});

t.test('changes outlive a daemon that is killed, and the command takes the name', async (t) => {
  const body = { name: 'shop-1', labels: { stage: 'live', app: null }, timeout_s: 3600 };
  const changed = await daemon.api.ask('updateSandbox', { params: { id }, body });
  await daemon.end('SIGKILL');
  daemon = await spawnDaemon(directories, options);
  const about = await daemon.api.ask('getSandbox', { params: { id } });
  t.match(about, { name: 'shop-1', state: 'running', expires_at: changed.expires_at });
  t.same([about.labels, about.env_names], [{ stage: 'live' }, ['GREETING', 'OWN']]);
  t.ok(about.expires_at);
  const env = { SANDBOXD_HOST: daemon.url };
  const shown = await runCommand(['exec', 'shop-1', 'sh', '-c', SHOW], env);
  t.match(shown, { code: 0, stdout: 'two words,sandbox,\n' }, shown.stderr);
  t.notOk((await runCommand(['exec', 'web', 'true'], env)).code === 0, 'its name of before is gone');
  const { sandboxes } = await daemon.api.ask('listSandboxes', { query: { label: 'stage=live' } });
  t.same(
    sandboxes.map((each) => each.id),
    [id],
  );
  await t.rejects(daemon.api.create({ name: 'shop-1' }), { message: /^409/ });
  await daemon.api.create({ memory_mib: 128, name: 'web' });
});
