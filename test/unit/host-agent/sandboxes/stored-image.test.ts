// The image of a snapshot or sandbox of the store, on a host that does not have it by its name.
import t from 'tap';
import { resolveImport } from '../../../../host-agent/src/sandboxes/import-snapshot.ts';

const IMAGE = `sha256:${'a'.repeat(64)}`;
const { signal } = new AbortController();

function resolve(imageDigest: string, isStored: boolean, byName: string | undefined) {
  const asked: string[] = [];
  const find = async ({ name }: { name: string }, pull: string) => {
    asked.push(`${name} ${pull}`);
    const digest = name === IMAGE ? 'root' : byName;
    if (digest === undefined) throw new Error('there is none');
    return {
      rootfs: {
        kind: 'image',
        name,
        digest,
        rootfsPath: `/${digest}`,
        env: {},
        workdir: '/',
        agentPath: '/x/a',
      },
    };
  };
  const rootfs = { kind: 'image', name: 'n', digest: 'root', imageDigest, env: {}, workdir: '/', agent: 'a' };
  const options = { vcpus: 1, memoryMib: 1, diskBytes: 1, timeoutS: 0, bootArgs: '', rootfs };
  const context = {
    ...{ compatibility: {}, limits: { vcpus: 1, memoryMib: 1, diskBytes: 1 }, roots: { find } },
    ...{ system: { agentRootfs: async () => undefined }, ...(isStored && { isStored }) },
  };
  const resolved = resolveImport({ compatibility: {}, options } as never, context as never, false, signal);
  return { asked, resolved };
}

t.test('its digest leads to it, and it keeps its name', async (t) => {
  for (const byName of [undefined, 'another']) {
    const { asked, resolved } = resolve(IMAGE, true, byName);
    t.match(await resolved, { rootfs: { name: 'n', digest: 'root', rootfsPath: '/root' } });
    t.same(asked, ['n never', `${IMAGE} missing`]);
  }
  const here = resolve(IMAGE, true, 'root');
  await here.resolved;
  t.same(here.asked, ['n never'], 'what is here is not fetched');
});

t.test('what a client imports, and what is no digest, is asked nowhere', async (t) => {
  for (const [digest, isStored] of [
    [IMAGE, false],
    ['registry.example/x', true],
    ['', true],
  ] as const) {
    const { asked, resolved } = resolve(digest, isStored, undefined);
    await t.rejects(resolved, { code: 'conflict', message: /which this host does not have: there is none/ });
    t.same(asked, ['n never']);
  }
  await t.rejects(resolve('', true, 'another').resolved, { message: /this host has another by that name/ });
});
