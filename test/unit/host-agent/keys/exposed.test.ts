// Listening beyond loopback: alone with a key only, in a fleet also before its keys come.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { openStore } from '../../../../host-agent/src/app/open-store.ts';
import { realHost } from '../../../../host-agent/src/commands/doctor/host.ts';
import { keys as keysGroup } from '../../../../host-agent/src/commands/doctor/keys.ts';
import { loadConfig } from '../../../../host-agent/src/config/index.ts';
import { hashKey, mintKey } from '../../../../host-agent/src/keys/record.ts';

const dir = mkdtempSync(join(tmpdir(), 'exposed-'));
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
for (const name of ['cert', 'key', 'kubeconfig', 'secret'])
  writeFileSync(join(dir, name), '', { mode: 0o600 });
const PLACES = ['--data-dir', join(dir, 'data'), '--run-dir', join(dir, 'run')];
const EXPOSED = ['--listen', '0.0.0.0:7878', '--tls-cert', join(dir, 'cert'), '--tls-key', join(dir, 'key')];
const FLEET = ['--join', join(dir, 'kubeconfig'), '--fleet-secret-file', join(dir, 'secret')];

function load(flags: readonly string[]) {
  const loaded = loadConfig({ argv: [...PLACES, ...flags], env: {}, engineNames: ['first'] });
  if (!('config' in loaded)) throw new Error('no configuration');
  return loaded.config;
}

async function open(
  flags: readonly string[],
  use: (opened: Awaited<ReturnType<typeof openStore>>, logged: readonly string[]) => unknown,
) {
  await using resources = new AsyncDisposableStack();
  const logged: string[] = [];
  const log = pino({}, { write: (line: string) => void logged.push(JSON.parse(line).msg) });
  await use(await openStore({ config: load(flags), log, resources } as never), logged);
}

t.test('the log and the doctor say who is accepted while there are no keys', async (t) => {
  const seen = async (...flags: string[]) => (await keysGroup.check(realHost(load(flags))))[0]?.seen;
  await open([], (_, logged) => t.match(logged, [/has full access/]));
  t.match(await seen(), /every client of 127.0.0.1:7878 has full access/);
  t.match(await seen(...FLEET), /full access/);
  await open([...FLEET, ...EXPOSED], (_, logged) =>
    t.match(logged, [/no client is accepted until the fleet has one/]),
  );
  t.match(await seen(...FLEET, ...EXPOSED), /no client is accepted until the fleet has one/);
  await open([...FLEET, '--require-keys'], (_, logged) => t.match(logged, [/require_keys is set/]));
  t.match(await seen(...FLEET, ...EXPOSED, '--require-keys'), /require_keys is set/);
});

t.test('a host of a fleet takes no client until it has a key', async (t) => {
  await t.rejects(
    open(EXPOSED, () => undefined),
    { code: 'conflict', message: /there is no valid key/ },
  );
  await open([], ({ keys }) => t.notOk(keys.isClosed, 'on loopback, alone'));
  await open(FLEET, ({ keys }) => t.notOk(keys.isClosed, 'on loopback, as without a fleet'));
  await open([...FLEET, ...EXPOSED], ({ keys }) => t.ok(keys.isClosed));
  const text = mintKey();
  await open([...FLEET, ...EXPOSED], async ({ keys }) => {
    await keys.setShared([{ name: 'ci', hash: hashKey(text), createdAtMs: 1 }]);
  });
  await open([...FLEET, ...EXPOSED], ({ keys }) => t.match(keys.find(text), { state: 'valid' }));
  await t.rejects(
    open(EXPOSED, () => undefined),
    { code: 'conflict' },
    'without the fleet its keys are none',
  );
  await open(FLEET, ({ keys }) => {
    t.match(keys.find(text), { state: 'unknown' });
    t.ok(keys.isClosed, 'it stays closed');
  });
});
