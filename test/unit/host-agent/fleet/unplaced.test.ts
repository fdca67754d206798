// What a host names without a place, in the text of its Node, and how gateways make these places.
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t from 'tap';
import type { Host } from '../../../../host-agent/src/fleet/catalogue.ts';
import { KubeError } from '../../../../host-agent/src/fleet/kube/client.ts';
import { Moves } from '../../../../host-agent/src/fleet/kubernetes/moves.ts';
import { NewPlaces } from '../../../../host-agent/src/fleet/kubernetes/new-places.ts';
import { PlacePosts } from '../../../../host-agent/src/fleet/kubernetes/place-posts.ts';
import { type PlacePod, readPlacePod, toPod } from '../../../../host-agent/src/fleet/kubernetes/pods.ts';
import {
  readUnplaced,
  toUnplacedAnnotations,
  type Unplaced,
  type UnplacedList,
  writeUnplaced,
} from '../../../../host-agent/src/fleet/kubernetes/unplaced.ts';
import { FleetSeal } from '../../../../host-agent/src/fleet/seal.ts';
import { until } from '../../../support/until.ts';

const seal = new FleetSeal(Buffer.alloc(32, 1));
const toId = (n: number): string => `sbx_${String(n).padStart(13, '0')}`;
const unplaced = (n: number, namespace = 'sandboxd-acme'): Unplaced => ({
  ...{ id: toId(n), namespace, vcpus: 1, memoryMib: 128 },
});

function exchange(list: UnplacedList): UnplacedList {
  return readUnplaced('h0', toUnplacedAnnotations('h0', writeUnplaced(list), seal), seal);
}

t.test('what is written is read', (t) => {
  const named = [unplaced(1), { ...unplaced(2), leaves: '1f6b02c9' }, unplaced(3, 'sandboxd')];
  for (const hasMore of [false, true]) {
    const read = exchange({ named, hasMore });
    t.equal(read.hasMore, hasMore);
    t.same(
      read.named.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
      named,
    );
  }
  t.same(exchange({ named: [], hasMore: true }), { named: [], hasMore: true });
  t.equal(writeUnplaced({ named: [], hasMore: false }), '');
  const annotations = toUnplacedAnnotations('h0', writeUnplaced({ named, hasMore: true }), seal);
  t.same(readUnplaced('h1', annotations, seal), { named: [], hasMore: false }, 'of another host');
  t.end();
});

t.test('many of one tenant hide no other tenant’s, and a list that is not whole says so', (t) => {
  const many = Array.from({ length: 10_000 }, (_, n) => unplaced(n));
  const few = Array.from({ length: 20 }, (_, n) => unplaced(20_000 + n, 'sandboxd-other'));
  const text = writeUnplaced({ named: [...many, ...few], hasMore: false });
  t.ok(text.length <= 128 * 1024, 'all annotations of an object have 256 KiB');
  const read = exchange({ named: [...many, ...few], hasMore: false });
  t.ok(read.hasMore);
  t.ok(read.named.length > 1000);
  t.equal(read.named.filter(({ namespace }) => namespace === 'sandboxd-other').length, 20);
  t.end();
});

t.test('that a sandbox comes from the bucket alone is sealed', (t) => {
  const request = { id: toId(1), move: '1f6b02c9', vcpus: 1, memoryMib: 128 };
  const read = (isRestored: boolean, own: Record<string, string>) => {
    const { metadata, ...made } = toPod({ ...request, isRestored }, 'sandboxd', seal);
    const annotations = { ...metadata.annotations, ...own };
    return readPlacePod({ ...made, metadata: { ...metadata, uid: 'u1', annotations } }, seal);
  };
  t.match(read(true, {}), { isRestored: true });
  t.match(read(false, {}), { isRestored: false });
  t.match(read(false, { 'sandboxd.dev/restored': 'true' }), { isRestored: false }, 'a user wrote it');
  t.equal(read(true, { 'sandboxd.dev/restored': 'false' }), undefined);
  t.end();
});

const FORBIDDEN = new KubeError(403, 'Forbidden', 'exceeded quota');

/** `answer`: of the API server, to a pod in that namespace. */
function open(hosts: readonly Partial<Host>[], answer: (namespace: string) => KubeError | undefined) {
  const [posted, placed] = [[] as { namespace: string; body: unknown }[], new Set<string>()];
  const counts = { open: 0, most: 0 };
  const all = hosts.map((host, n) => ({
    ...{ name: `h${n}`, url: new URL('http://127.0.0.1/'), doors: {}, isReady: true, unplaced: [] },
    ...host,
  }));
  const request = async ({ path, body }: { path: string; body?: object }) => {
    counts.open += 1;
    counts.most = Math.max(counts.most, counts.open);
    await sleep(1);
    counts.open -= 1;
    const namespace = path.split('/').at(-2) ?? '';
    posted.push({ namespace, body });
    const error = answer(namespace);
    if (error !== undefined) throw error;
    placed.add((body as ReturnType<typeof toPod>).metadata.name);
    return {};
  };
  const isPlaced = (id: string): boolean => [...placed].some((name) => name.startsWith(id.replace('_', '-')));
  const places = new NewPlaces({
    ...{ seal, log: pino({ level: 'silent' }), settleMs: 0, refusedOf: () => ['h9'] },
    posts: new PlacePosts({ client: { request }, timeoutMs: 1500 }),
    map: {
      isCurrent: true,
      hosts: () => all,
      placesOf: (id) => (isPlaced(id) ? ([{ id }] as never) : []),
    },
  });
  return { places, posted, placed, counts };
}

t.test('places that are refused cost few requests, and those of other tenants are made', async (t) => {
  const refused = Array.from({ length: 10 }, (_, host) => ({
    unplaced: Array.from({ length: 200 }, (_, n) => unplaced(host * 1000 + n)),
  }));
  const other = { unplaced: Array.from({ length: 20 }, (_, n) => unplaced(90_000 + n, 'sandboxd-other')) };
  const { places, posted, placed, counts } = open([...refused, other], (namespace) =>
    namespace === 'sandboxd-acme' ? FORBIDDEN : undefined,
  );
  for (let change = 0; change < 20; change++) places.look();
  await until(() => placed.size === 20, 'the other tenant has its places');
  t.ok(counts.most <= 4, String(counts.most));
  // Each pause lets the four through that begin before the first is refused.
  const ofAcme = posted.filter(({ namespace }) => namespace === 'sandboxd-acme').length;
  t.ok(ofAcme <= 40, String(ofAcme));
});

t.test('a sandbox that was refused lets the others of its namespace be first', async (t) => {
  const { places, posted } = open(
    [{ unplaced: Array.from({ length: 12 }, (_, n) => unplaced(n)) }],
    () => FORBIDDEN,
  );
  places.look();
  await until(() => posted.length >= 12, 'several rounds');
  const names = posted.slice(0, 12).map(({ body }) => (body as ReturnType<typeof toPod>).metadata.name);
  t.equal(new Set(names).size, 12);
});

t.test('what leaves a host is placed on another, and a cordoned node gets nothing', async (t) => {
  const leaving = { ...unplaced(1), leaves: '1f6b02c9' };
  const { places, posted } = open([{ isCordoned: true, unplaced: [leaving, unplaced(2)] }], () => undefined);
  places.look();
  await until(() => posted.length > 0, 'a place');
  places.look();
  await sleep(20);
  const required = {
    nodeSelectorTerms: [
      {
        matchFields: ['h0', 'h9'].map((host) => ({
          key: 'metadata.name',
          operator: 'NotIn',
          values: [host],
        })),
      },
    ],
  };
  const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: required };
  const metadata = { name: 'sbx-0000000000001-1f6b02c9' };
  t.match(posted, [{ body: { metadata, spec: { affinity: { nodeAffinity } } } }]);
  t.equal(posted.length, 1);
});

t.test(
  'places of a drained host that are refused cost few requests, and those of other tenants are made',
  async (t) => {
    const [posted, placed] = [[] as string[], new Set<string>()];
    const counts = { open: 0, most: 0 };
    const request = async ({ path, body }: { path: string; body?: object }) => {
      counts.open += 1;
      counts.most = Math.max(counts.most, counts.open);
      await sleep(1);
      counts.open -= 1;
      const namespace = path.split('/').at(-2) ?? '';
      posted.push(namespace);
      if (namespace === 'sandboxd-acme') throw FORBIDDEN;
      placed.add((body as ReturnType<typeof toPod>).metadata.name);
      return {};
    };
    const sources = [
      ...Array.from({ length: 500 }, (_, n) => unplaced(n)),
      ...Array.from({ length: 20 }, (_, n) => unplaced(90_000 + n, 'sandboxd-other')),
    ].map(
      (each): PlacePod => ({
        ...{ ...each, uid: each.id, host: 'h0', phase: 'Running', leaves: '1f6b02c9' },
        ...{ isDeleting: false, isCounted: true, isRestored: false },
      }),
    );
    const byId = new Map(sources.map((each) => [each.id, each]));
    const map = {
      ...{ isCurrent: true, host: () => undefined, findUnplaced: () => undefined, all: () => sources },
      placesOf: (id: string) => {
        const source = byId.get(id) as PlacePod;
        const isPlaced = placed.has(`${id.replace('_', '-')}-1f6b02c9`);
        return isPlaced ? [source, { ...source, leaves: undefined, move: '1f6b02c9' }] : [source];
      },
    };
    const moves = new Moves({
      ...{ seal, map, log: pino({ level: 'silent' }), timeoutMs: 1500, forget: () => undefined },
      client: { request },
      posts: new PlacePosts({ client: { request }, timeoutMs: 1500 }),
    });
    for (let change = 0; change < 20; change++) moves.look();
    await until(() => placed.size === 20, 'the other tenant has its places');
    t.ok(counts.most <= 4, `${counts.most} at once`);
    const ofAcme = () => posted.filter((each) => each === 'sandboxd-acme').length;
    t.ok(ofAcme() <= 40, `${ofAcme()} refused`);
    await until(() => ofAcme() > 4, 'another attempt after the pause');
  },
);
