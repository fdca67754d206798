// Listening beyond loopback: alone with a key only, in a fleet also before its keys come.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { openStore } from '../../../../host-agent/src/app/open-store.ts';
import { loadConfig } from '../../../../host-agent/src/config/index.ts';
import { hashKey, mintKey } from '../../../../host-agent/src/keys/record.ts';

const dir = mkdtempSync(join(tmpdir(), 'exposed-'));
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
for (const name of ['cert', 'key', 'kubeconfig', 'secret'])
  writeFileSync(join(dir, name), '', { mode: 0o600 });
const PLACES = ['--data-dir', join(dir, 'data'), '--run-dir', join(dir, 'run')];
const EXPOSED = ['--listen', '0.0.0.0:7878', '--tls-cert', join(dir, 'cert'), '--tls-key', join(dir, 'key')];
const FLEET = ['--join', join(dir, 'kubeconfig'), '--fleet-secret-file', join(dir, 'secret')];

async function open(
  flags: readonly string[],
  use: (opened: Awaited<ReturnType<typeof openStore>>) => unknown,
) {
  const loaded = loadConfig({ argv: [...PLACES, ...flags], env: {}, engineNames: ['first'] });
  if (!('config' in loaded)) throw new Error('no configuration');
  await using resources = new AsyncDisposableStack();
  const { config } = loaded;
  await use(await openStore({ config, log: pino({ level: 'silent' }), resources } as never));
}

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
