// A policy must state which tenants its key sees; what the doctor says of the keys that there are.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Policy } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { realHost } from '../../../../host-agent/src/commands/doctor/host.ts';
import { keys as keysGroup } from '../../../../host-agent/src/commands/doctor/keys.ts';
import { checkVisibility } from '../../../../host-agent/src/commands/keys/index.ts';
import { loadConfig } from '../../../../host-agent/src/config/index.ts';
import { KeyRegistry, type NewKey } from '../../../../host-agent/src/keys/index.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { DAEMON_PROGRAM } from '../../../support/leftovers.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(120_000));

async function makeDir(t: Test): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'wide-'));
  t.teardown(() => rm(dir, { recursive: true }));
  return dir;
}

const run = (dir: string, ...words: string[]) =>
  new Promise<{ code: number; stdout: string; stderr: string }>((settle) => {
    execFile(DAEMON_PROGRAM, [...words, '--data-dir', dir], (error, stdout, stderr) =>
      settle({ code: Number(error?.code ?? 0), stdout, stderr }),
    );
  });

/** Findings of the doctor on a data directory, by name. */
async function examine(dir: string, ...flags: string[]) {
  const loaded = loadConfig({ argv: ['--data-dir', dir, ...flags], env: {}, engineNames: ['first'] });
  if (!('config' in loaded)) throw new Error('no configuration');
  const findings = await keysGroup.check(realHost(loaded.config));
  return Object.fromEntries(findings.map(({ name, level, seen }) => [name, `${level}: ${seen}`]));
}

async function fill(dir: string, keys: readonly NewKey[]): Promise<void> {
  const store = await Store.open(join(dir, 'state.lmdb'));
  const registry = new KeyRegistry(store);
  for (const key of keys) await registry.create(key);
  await store.close();
}

t.test('a policy states which tenants its key sees, or the key is refused', async (t) => {
  const refused = {
    message: /does not bound whose sandboxes a key sees; give --tenant <name>.*or --all-tenants/,
  };
  const check = (policy?: Policy, tenant?: string, isAll = false) => checkVisibility(tenant, isAll, policy);
  for (const policy of [
    {},
    { max_vcpus: 1 },
    { operations: ['read' as const] },
    { operations: ['metrics' as const, 'view' as const] },
  ]) {
    t.throws(() => check(policy), refused);
    t.doesNotThrow(() => check(policy, 'acme'));
    t.doesNotThrow(() => check(policy, undefined, true));
  }
  t.throws(() => check(undefined, 'acme', true), { message: /--tenant and --all-tenants/ });
  t.doesNotThrow(() => check());
  t.doesNotThrow(() => check({ operations: ['images', 'metrics'] }), 'nothing of any tenant');

  const dir = await makeDir(t);
  await writeFile(join(dir, 'policy.json'), '{"max_idle_timeout_s": 60}');
  const words = [
    'keys',
    'create',
    'ci',
    '--policy',
    join(dir, 'policy.json'),
    '--publish-ports',
    '80,8000-8999',
  ];
  t.match(await run(dir, ...words), { code: 2, stdout: '', stderr: /give --tenant <name>/ });
  const made = await run(dir, ...words, '--all-tenants', '--max-published-ports', '2', '--json');
  t.match(JSON.parse(made.stdout), {
    all_tenants: true,
    policy: { max_idle_timeout_s: 60, publish_ports: ['80', '8000-8999'], max_published_ports: 2 },
  });
});

t.test('keys list and the doctor say which clients are let in', async (t) => {
  const dir = await makeDir(t);
  t.same(await examine(dir), { keys: 'ok: none: every client of 127.0.0.1:7878 has full access' });
  t.match(await examine(dir, '--require-keys'), { keys: /^warning: none, and require_keys is set/ });
  await fill(dir, [{ name: 'new', policy: { operations: ['create'] } }, { name: 'admin' }]);
  t.same(await examine(dir), { keys: 'ok: 2 valid; everything of all tenants may be done by: admin' });
  const { stdout } = await run(dir, 'keys', 'list');
  t.match(
    stdout.split('\n').find((line) => line.startsWith('admin')),
    / \(all\) .* everything$/,
  );
  const revoke = async (name: string) => {
    const store = await Store.open(join(dir, 'state.lmdb'));
    await new KeyRegistry(store).revoke(name);
    await store.close();
  };
  await revoke('admin');
  t.match(await examine(dir), { keys: 'ok: 1 valid; everything of all tenants may be done by: none' });
  await revoke('new');
  t.match(await examine(dir), { keys: /^warning: none is valid/ });
  await rm(join(dir, 'state.lmdb'));
  t.match(await examine(dir), { keys: /^fault: none, and .*keys-required says that there were some/ });
  const store = await Store.open(join(dir, 'state.lmdb'));
  await store.table('meta').put('schema_version', 4);
  await store.close();
  await t.rejects(examine(dir), {
    code: 'internal',
    message: /schema version 4, of a version that was never/,
  });
});
