// Stored secrets that change while others are read slowly: no change waits for a source of another secret.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { secretBindings } from '@sandboxd/api';
import { pino } from 'pino';
import t from 'tap';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { followSecrets } from '../../../../host-agent/src/sandboxes/secret-changes.ts';
import type { BindingChanges } from '../../../../host-agent/src/secrets/index.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { openTestSecrets } from '../../../support/test-secrets.ts';
import { until } from '../../../support/until.ts';

const VALUE = 'ghp_an-example-of-a-value';

t.test('a removal is with the gateway while the command of another secret still runs', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'secret-rotation-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const [slow, gate] = [join(dir, 'slow'), join(dir, 'gate')];
  writeFileSync(slow, `#!/bin/sh\nwhile [ ! -e ${gate} ]; do sleep 0.02; done\nprintf %s '${VALUE}-slow'\n`);
  chmodSync(slow, 0o755);
  const store = await Store.open(join(dir, 'state.lmdb'));
  t.teardown(() => store.close());
  const log = pino({ level: 'silent' });
  const commands = new Map([['slow', { path: slow, hosts: ['a.test'] }]]);
  const { secretStore, sandboxSecrets } = openTestSecrets(dir, store, log, { commands });
  t.teardown(() => secretStore.close());
  await secretStore.put('', 'quick', { value: VALUE, hosts: ['a.test'] });
  // As one that an earlier daemon stored: this one has not read it.
  const quick = store.table<object>('secrets').get('/quick') ?? {};
  const { sealed: _, digest: _digest, ...plain } = quick as { sealed?: string; digest?: string };
  await store.table<object>('secrets').put('/slow', { ...plain, source: { command: 'slow' }, valueBytes: 0 });
  const wanted = secretBindings.parse({ Q: { use: 'quick' }, S: { use: 'slow' } }) as BindingChanges;
  const bindings = sandboxSecrets.change([], wanted, '');
  const handed: Record<string, string | null>[] = [];
  const hand = (): void => {
    const { secrets } = sandboxSecrets.forGateway(bindings);
    handed.push(Object.fromEntries(secrets.map(({ name, value }) => [name, value])));
  };
  const ending = new AbortController();
  t.teardown(() => ending.abort());
  followSecrets({
    secrets: sandboxSecrets,
    network: { changeSecrets: async () => hand() },
    sandboxes: () => [
      { id: 'sbx_a', record: { network: {}, metadata: { secrets: bindings } } as unknown as SandboxRecord },
    ],
    signal: ending.signal,
    log,
  });
  const starting = sandboxSecrets.refresh(bindings).then(hand);
  await secretStore.remove('', 'quick');
  t.strictSame(handed, [{ Q: null, S: null }]);
  writeFileSync(gate, '');
  await starting;
  await until(() => handed.length === 2);
  t.strictSame(handed[1], { Q: null, S: Buffer.from(`${VALUE}-slow`).toString('base64') });
});
