// Audit lines have the names and labels of what is made and changed, and no values of environments.
import t from 'tap';
import type { RequestEntry } from '../../host-agent/src/audit/index.ts';
import type { Images } from '../../host-agent/src/images/index.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { FakeImages } from './fake-images.ts';
import { ask, makeApp } from './support.ts';

t.test('creates, forks, snapshots and changes', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  const entries: RequestEntry[] = [];
  const audit = { write: (entry: unknown) => void entries.push(entry as RequestEntry) };
  const { app } = makeApp({ sandboxes: manager, images: new FakeImages().store as Images, audit });
  const request = async (method: string, path: string, body: unknown = {}) => {
    const answer = await ask(app, method, path, JSON.stringify(body));
    return { ...(answer.body as { id: string; sandboxes: { id: string }[] }), line: entries.at(-1) };
  };
  const labels = { team: 'x' };
  const env = { TOKEN: 'secret-value' };
  const made = await request('POST', '/sandboxes', { name: 'web', labels, env });
  t.match(made.line, { made: [made.id], effective: { vcpus: 1, profile: 'base', name: 'web', labels } });
  const refused = await request('POST', '/sandboxes', { name: 'web', labels: { team: 'y' }, env });
  t.match(refused.line, { status: 409, effective: { name: 'web', labels: { team: 'y' } } });
  const same = await request('POST', '/sandboxes', { name: 'web', labels, env, if_exists: 'return' });
  t.match(same.line, { status: 200, effective: { name: 'web' } });
  const plain = await request('POST', '/sandboxes');
  for (const field of ['name', 'labels']) t.notOk(field in (plain.line?.effective ?? {}), field);

  const update = await request('PATCH', `/sandboxes/${made.id}`, { labels: { tier: '' } });
  t.match(update.line, { effective: { name: 'web', labels: { team: 'x', tier: '' }, timeoutS: 0 } });
  const clash = await request('PATCH', `/sandboxes/${plain.id}`, { name: 'web', labels: { a: null } });
  t.match(clash.line, { status: 409, effective: { name: 'web', labels: { a: null } } });

  const taken = await request('POST', `/sandboxes/${made.id}/snapshot`, {
    name: 'gold',
    labels,
    comment: 'secret',
  });
  t.match(taken.line, { made: [taken.id], effective: { name: 'gold', labels } });
  const changed = await request('PATCH', `/snapshots/${taken.id}`, {
    labels: { team: null, b: '' },
    comment: 'secret',
  });
  t.same(changed.line?.effective, { name: 'gold', labels: { b: '' } });

  const fork = await request('POST', `/snapshots/${taken.id}/fork`, {
    name: 'copy',
    labels: { tier: null },
    env,
  });
  t.match(fork.line, { made: [fork.sandboxes[0]?.id], effective: { count: 1, name: 'copy', labels } });
  t.notOk('tier' in ((fork.line?.effective?.labels as object) ?? {}), 'those that it has');

  const image = await request('PATCH', '/images/nginx', { user_labels: { stage: 'tested' } });
  t.match(image.line, { effective: { image: /^sha256:/, labels: { stage: 'tested' } } });
  t.notMatch(JSON.stringify(entries), /secret/);
});
