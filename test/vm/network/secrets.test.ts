// Secrets with a real guest: curl and Python use a placeholder, the server has the value, the guest never does.
import '../../support/network/own-network.ts';
import { spawn } from 'node:child_process';
import { createPrivateKey } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { createZstdDecompress } from 'node:zlib';
import t from 'tap';
import { Leaves, makeAuthority } from '../../../host-agent/src/network/authority/index.ts';
import { Store } from '../../../host-agent/src/store/store.ts';
import type { SandboxJson } from '../../support/api.ts';
import { makeDirectories, removeDirectories, startDaemon } from '../../support/daemon.ts';
import { openInternet } from '../../support/internet/index.ts';
import { makeAuthorities } from '../../support/memory-host/authorities.ts';
import { scaled } from '../../support/time-scale.ts';

t.setTimeout(scaled(600_000));

const VALUE = 'ghp_never-in-the-guest/+0123456789abcdef';
const NEXT = 'ghp_the-next-value/+fedcba9876543210';

const SERVER = (cert: string, key: string) => `
require('https').createServer(${JSON.stringify({ cert, key })}, (q, s) => {
  console.log('got ' + q.headers.authorization);
  s.end('you sent ' + q.headers.authorization); }).listen(443, () => console.log('up'));`;

const CURL = 'curl -sS -i -H "Authorization: Bearer $GH" https://api.test/';

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
async function findIn(dirs: readonly string[], forms: readonly Buffer[], patterns: string): Promise<string> {
  writeFileSync(patterns, Buffer.concat(forms.flatMap((form) => [form, Buffer.from('\n')]).slice(0, -1)));
  // Beside the event loop, which connections of the client need.
  // Files of namespaces cannot be read.
  const child = spawn('grep', ['-rlaF', '--exclude-dir=net', '-f', patterns, ...dirs], {
    ...{ env: { PATH: process.env.PATH, LC_ALL: 'C' }, stdio: ['ignore', 'pipe', 'pipe'] },
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (child.exitCode === null) await once(child, 'exit');
  // A sandbox that was deleted goes meanwhile.
  const problems = stderr.split('\n').filter((line) => !/^$|: No such file or directory$/.test(line));
  if (problems.length > 0 || (child.exitCode ?? 3) > 2) throw new Error(`grep did not run: ${problems[0]}`);
  return stdout;
}

t.test(
  '76, 87, 102, 105: a guest uses a secret; nothing of it is in memory, disk, snapshot, export and logs',
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
    const placeholder = (await ask('echo $GH')).trim();
    t.match(placeholder, /^sbxs_gh_[a-z2-7]{26}/);
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
    t.match(await findIn([join(home, 'known')], forms, patterns), /control/, 'control: it is found');
    t.equal(await findIn([directories.dataDir, directories.runDir], forms, patterns), '');
    const saved = join(directories.dataDir, 'snapshots', snapshot.id);
    t.match(
      await findIn([saved], [Buffer.from(placeholder)], patterns),
      /memory/,
      'control: what the guest has is found in its memory',
    );
    t.match(await api.call('GET', '/secrets/github'), { uses: 2, used_by: [id] });

    const exported = await fetch(`${daemon.url}/snapshots/${snapshot.id}/export`);
    const archive = join(home, 'archive');
    writeFileSync(archive, await exported.bytes());
    const unpacked = join(home, 'unpacked');
    await pipeline(createReadStream(archive), createZstdDecompress(), createWriteStream(unpacked));
    const store = await Store.open(join(directories.dataDir, 'state.lmdb'));
    const authority = makeAuthorities(store, directories.dataDir).open(id);
    await store.close();
    const { d = '' } = createPrivateKey(authority.key).export({ format: 'jwk' });
    const keyForms = [Buffer.from(d, 'base64url'), Buffer.from(authority.key.split('\n')[1] ?? '-')];
    t.equal(
      await findIn([archive, unpacked], [...forms, ...keyForms], patterns),
      '',
      '105: nor the key of the CA',
    );
    const certificate = Buffer.from(authority.certificate.split('\n')[1] ?? '-');
    t.match(await findIn([unpacked], [certificate], patterns), /unpacked/, 'control: its certificate');
    const body = readFileSync(archive);
    const imported = await api.fetch('/snapshots/import', { method: 'POST', body });
    const { id: copied } = (await imported.json()) as { id: string };
    const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${copied}/fork`);
    const copy = sandboxes[0]?.id ?? '';
    t.match(await api.call('GET', `/sandboxes/${copy}/network`), {
      secrets: [{ name: 'GH', has_value: false }],
    });
    const refused = await api.sh(copy, CURL);
    t.match(refused, /403.*secret GH has no value here/s, '105: unbound, and says so');
    t.equal(seen.filter((line) => line !== 'up').length, 2, 'the server has seen nothing of it');
    await api.call('PATCH', `/sandboxes/${copy}/network`, { secrets: { GH: { use: 'github' } } });
    t.match(await api.sh(copy, CURL), `you sent Bearer ${'*'.repeat(NEXT.length)}`);
    t.equal(seen.at(-1), `got Bearer ${NEXT}`);
    t.notMatch(JSON.stringify(daemon.log), 'ghp_');
  },
);
