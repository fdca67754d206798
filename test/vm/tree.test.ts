// The tree of snapshots of real guests: who came from whom, while inner ones are deleted; with the command, too.
import t from 'tap';
import type { SandboxJson } from '../support/api.ts';
import { checkedUrl } from '../support/checked-proxy.ts';
import { runCommand } from '../support/command.ts';
import { leftovers, makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(900_000));

const WRITE = (text: string) => `echo ${text} > /dev/shm/note; echo ${text} > /root/note; sync /root/note`;
const READ = 'cat /dev/shm/note /root/note';

t.test('parents, deletes of inner snapshots, and what came from them', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  let daemon = await spawnDaemon(directories, { onExit: 'keep' });
  t.teardown(() => daemon.end());
  const snapshot = (id: string) => daemon.api.ask('takeSnapshot', { params: { id } });
  const fork = async (id: string): Promise<SandboxJson> => {
    const { sandboxes } = await daemon.api.call<{ sandboxes: SandboxJson[] }>(
      'POST',
      `/snapshots/${id}/fork`,
    );
    return sandboxes[0] as SandboxJson;
  };
  const parents = async (id: string) => {
    const { nodes } = await daemon.api.ask('showSnapshotTree', { params: { id } });
    return Object.fromEntries(
      nodes.map((node) => [
        node.id,
        node.deleted === true ? `${node.parent_id ?? ''} deleted` : node.parent_id,
      ]),
    );
  };
  const parentOf = async (id: string) =>
    (await daemon.api.ask('getSandbox', { params: { id } })).parent_snapshot_id;

  // top ─┬─ inner ─┬─ last ── main
  //      │         └─ right
  //      └─ left
  const { id: main } = await daemon.api.create({ memory_mib: 128 });
  t.equal(await parentOf(main), undefined);
  await daemon.api.sh(main, WRITE('top'));
  const top = await snapshot(main);
  t.equal(top.parent_snapshot_id, undefined);
  const { id: left } = await fork(top.id);
  await daemon.api.sh(main, WRITE('inner'));
  const inner = await snapshot(main);
  t.equal(inner.parent_snapshot_id, top.id);
  const { id: right } = await fork(inner.id);
  await daemon.api.sh(main, WRITE('last'));
  const last = await snapshot(main);
  const [all, edges] = [
    [top.id, left, inner.id, right, last.id, main],
    [undefined, top.id, top.id, inner.id, inner.id, last.id],
  ];
  const drawn = Object.fromEntries(all.map((id, at) => [id, edges[at]]));
  for (const { id } of [top, inner, last]) t.same(await parents(id), drawn);
  t.equal(await parentOf(main), last.id);

  await daemon.api.call('DELETE', `/snapshots/${inner.id}`);
  await t.rejects(fork(inner.id), { message: /does not exist/ });
  t.same(await parents(last.id), { ...drawn, [inner.id]: `${top.id} deleted` });
  t.equal(await daemon.api.sh(right, READ), 'inner\ninner', 'a fork of the deleted one goes on');
  const { id: third } = await fork(last.id);
  t.equal(await daemon.api.sh(third, READ), 'last\nlast', 'one below it is whole');
  await daemon.api.delete(third);

  await daemon.end();
  daemon = await spawnDaemon(directories, { onExit: 'keep' });
  t.same(await parents(top.id), { ...drawn, [inner.id]: `${top.id} deleted` }, 'the next daemon has it');
  await daemon.api.ask('rollbackSandbox', { params: { id: main }, body: { snapshot_id: top.id } });
  t.equal(await daemon.api.sh(main, READ), 'top\ntop', 'over the deleted one back to the top');
  t.equal(await parentOf(main), top.id);
  await daemon.api.ask('pauseSandbox', { params: { id: left }, body: {} });
  const { code, stdout } = await runCommand(['tree', main], {
    SANDBOXD_HOST: await checkedUrl(t, daemon.url),
    XDG_CONFIG_HOME: directories.dataDir,
  });
  t.equal(code, 0);
  const shape = stdout.replaceAll(/ {2}(?:[a-z]+ ago|\d.*|just now|now)$/gm, '').trimEnd();
  t.equal(
    shape,
    [
      top.id,
      `├─ ${main} *  running`,
      `├─ ${left}  paused`,
      `└─ ${inner.id}  deleted`,
      `   ├─ ${right}  running`,
      `   └─ ${last.id}`,
    ].join('\n'),
  );

  t.equal(await daemon.api.sh(left, READ), 'top\ntop');
  await daemon.api.call('DELETE', `/snapshots/${top.id}`);
  for (const id of [main, left, right]) await daemon.api.delete(id);
  while (Object.keys(await parents(last.id)).length > 2);
  const rest = { [inner.id]: ' deleted', [last.id]: inner.id };
  t.same(await parents(last.id), rest, 'of those that are gone only the one from which it came');
  await daemon.api.call('DELETE', `/snapshots/${last.id}`);
  await daemon.end();
  t.same(await leftovers(directories), []);
});
