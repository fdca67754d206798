// Secrets with a real guest: curl and Python use a placeholder, the server has the value, the guest never does.
import '../../support/network/own-network.ts';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { Leaves, makeAuthority } from '../../../host-agent/src/network/authority/index.ts';
import { makeDirectories, removeDirectories, startDaemon } from '../../support/daemon.ts';
import { openInternet } from '../../support/internet/index.ts';
import { scaled } from '../../support/time-scale.ts';

t.setTimeout(scaled(600_000));

const VALUE = 'ghp_never-in-the-guest/+0123456789abcdef';
const NEXT = 'ghp_the-next-value/+fedcba9876543210';

const SERVER = (cert: string, key: string) => `
require('https').createServer(${JSON.stringify({ cert, key })}, (q, s) => {
  console.log('got ' + q.headers.authorization);
  s.end('you sent ' + q.headers.authorization); }).listen(443, () => console.log('up'));`;

/** Values in eight encodings. */
function formsOf(value: string): Buffer[] {
  const bytes = Buffer.from(value);
  const shifted = [0, 1, 2].map((n) =>
    Buffer.concat([Buffer.alloc(n), bytes])
      .toString('base64')
      .slice(4, -4),
  );
  const texts = [value, ...shifted, bytes.toString('hex'), encodeURIComponent(value), JSON.stringify(value)];
  return [
    ...texts.map((text) => Buffer.from(text)),
    Buffer.from(value, 'utf16le'),
    Buffer.from(bytes).reverse(),
  ];
}

/** The files below the directories that have one of them. */
function findIn(dirs: readonly string[], forms: readonly Buffer[], patterns: string): string {
  writeFileSync(patterns, Buffer.concat(forms.flatMap((form) => [form, Buffer.from('\n')]).slice(0, -1)));
  const { status, stdout } = spawnSync('grep', ['-rlaF', '-f', patterns, ...dirs], {
    ...{ env: { PATH: process.env.PATH, LC_ALL: 'C' }, encoding: 'utf8' },
  });
  if (status === null) throw new Error('grep did not run');
  return stdout;
}

t.test(
  '76, 87, 102: a guest uses a secret; nothing of it is in memory, disk, snapshot and logs',
  async (t) => {
    const internet = await openInternet(t);
    const { web } = internet.machines;
    await internet.names.serve([`host-record=api.test,${web.address},60`]);
    const world = await makeAuthority('world');
    const { cert, key } = await new Leaves(world).get('api.test');
    const control = Buffer.from(`user:${NEXT}`).toString('base64');
    const home = t.testdir({ 'roots.pem': world.certificate, known: { control } });
    const roots = join(home, 'roots.pem');
    const server = web.start(process.execPath, '-e', SERVER(cert, key));
    const seen: string[] = [];
    server.stdout?.on('data', (data) => seen.push(...String(data).trim().split('\n')));
    await web.listening('tcp', 443);
    const directories = await makeDirectories();
    t.teardown(() => removeDirectories(directories));
    const flags = [...internet.daemonFlags, '--egress-ca-file', roots];
    const daemon = await startDaemon(t, { flags, directories });
    const { api } = daemon;
    await api.call('PUT', '/secrets/github', { value: VALUE, hosts: ['api.test'] });
    const { id } = await api.create({
      profile: 'python-3.11',
      memory_mib: 256,
      network: { enabled: true, allowlist: ['api.test'] },
      secrets: { GH: { use: 'github' } },
    });
    const ask = (program: string) => api.sh(id, program);
    const python =
      'python3 -c \'import os, urllib.request as u; print(u.urlopen(u.Request("https://api.test/", headers={"Authorization": "Bearer " + os.environ["GH"]})).read().decode())\'';
    const stars = '*'.repeat(VALUE.length);
    t.match(await ask('echo $GH'), /^sbxs_gh_[a-z2-7]{26}/);
    t.match(await ask(python), `you sent Bearer ${stars}`);
    t.same(
      seen.filter((line) => line !== 'up'),
      [`got Bearer ${VALUE}`],
    );
    await api.call('PUT', '/secrets/github', { value: NEXT, hosts: ['api.test'] });
    t.match(await ask(python), 'you sent Bearer *');
    t.equal(seen.at(-1), `got Bearer ${NEXT}`, 'the next request has the new value');
    const snapshot = await api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
    t.match(snapshot.id, /^snap_/);
    const forms = [...formsOf(VALUE), ...formsOf(NEXT)];
    const patterns = join(home, 'patterns');
    t.match(findIn([join(home, 'known')], forms, patterns), /control/, 'control: it is found');
    t.equal(findIn([directories.dataDir, directories.runDir], forms, patterns), '');
    t.notMatch(JSON.stringify(daemon.log), 'ghp_');
  },
);
