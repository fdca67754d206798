// Webhooks with filters by labels: as the command takes them, and which events they match.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import t from 'tap';
import { Journal } from '../../../../host-agent/src/events/journal.ts';
import type { StoredEvent } from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { Dispatcher, WebhookRegistry } from '../../../../host-agent/src/webhooks/index.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(120_000));
const MAIN = resolve(import.meta.dirname, '../../../../host-agent/src/main.ts');
const run = promisify(execFile);

t.test('only events whose sandbox or snapshot had the labels', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'webhooks-'));
  const store = await Store.open(join(dataDir, 'state.lmdb'));
  const log = pino({ level: 'silent' });
  const journal = await Journal.open<StoredEvent>(store, { keepMs: 1e12, maxBytes: 2 ** 24, log });
  const registry = new WebhookRegistry(store);
  const sent: Record<string, unknown>[] = [];
  t.teardown(async () => {
    await dispatcher.stop();
    await journal.close();
    await store.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  const add = (...words: string[]) =>
    run(process.execPath, [MAIN, 'webhooks', 'add', ...words, '--data-dir', dataDir]).catch((error) => error);
  const url = 'http://127.0.0.1:1/';
  t.match((await add('one', url, '--label', 'team=x', '--label', 'app.example/tier')).stdout, /^whsec_/);
  for (const bad of ['', '__proto__=x', 'a=b=c'])
    t.match(
      await add('two', url, '--label', bad),
      { code: 2, stderr: /--label must be key or key=value/ },
      bad,
    );
  const { stdout } = await run(process.execPath, [MAIN, 'webhooks', 'list', '--json', '--data-dir', dataDir]);
  t.match(JSON.parse(stdout), [{ name: 'one', labels: ['team=x', 'app.example/tier'] }]);
  const dispatcher = new Dispatcher({
    registry,
    journal,
    log,
    pollMs: 30,
    send: async ({ body }) => {
      sent.push(JSON.parse(body));
      return undefined;
    },
  });
  const happen = (sandbox: string, labels?: Record<string, string>) =>
    journal.append({ kind: 'created', sandbox, atMs: 1, ...(labels && { labels }) });
  await happen('a', { team: 'x', 'app.example/tier': '' });
  await happen('b', { team: 'x' });
  await happen('c', { team: 'y', 'app.example/tier': 'z' });
  await happen('d');
  await happen('e', { constructor: 'x' });
  const labels = { team: 'x', 'app.example/tier': 'z', more: '1' };
  await journal.append({ kind: 'snapshot-deleted', snapshot: 'f', atMs: 1, labels });
  await until(() => sent.length === 2 && registry.list()[0]?.queued === 0);
  t.match(sent, [{ sandbox: 'a' }, { snapshot: 'f', labels }]);
});
