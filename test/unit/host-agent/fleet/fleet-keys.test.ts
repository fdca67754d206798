// Keys of a fleet beside ConfigMaps of others, who may write to the same namespace.
import t from 'tap';
import { AnswerTooLarge, KubeError, type KubeRequest } from '../../../../host-agent/src/fleet/kube/client.ts';
import { FleetKeys } from '../../../../host-agent/src/fleet/kubernetes/fleet-keys.ts';
import { KEY_LABEL, toKeyObjectName } from '../../../../host-agent/src/fleet/kubernetes/key-objects.ts';
import { FleetSeal } from '../../../../host-agent/src/fleet/seal.ts';

const NAMESPACE = 'sandboxd';
const MIB = 2 ** 20;
const DEFAULT_BYTES = 64 * MIB;
const seal = new FleetSeal(Buffer.from('a secret of a fleet of 32 bytes, or more'));
const other = new FleetSeal(Buffer.from('the secret of another fleet, also long'));

type ConfigMap = { metadata: { name: string; labels: Record<string, string>; resourceVersion: string } };

/** ConfigMaps of one namespace. */
class Cluster {
  readonly objects = new Map<string, ConfigMap>();
  #version = 0;

  readonly request = async ({ method, path, query = {}, body, maxBytes = DEFAULT_BYTES }: KubeRequest) => {
    const name = path.split('/')[6];
    const found = name === undefined ? undefined : this.objects.get(name);
    const sent = body as ConfigMap | undefined;
    if (method === 'GET' && name === undefined) return this.#list(query, maxBytes);
    if (method === 'POST' && sent !== undefined) return this.#put(sent);
    if (found === undefined) throw new KubeError(404, 'NotFound', 'none');
    if (method === 'GET' || sent === undefined) return found;
    if (sent.metadata.resourceVersion !== found.metadata.resourceVersion)
      throw new KubeError(409, 'Conflict', 'changed');
    return this.#put(sent);
  };

  keys(of = seal): FleetKeys {
    return new FleetKeys({ client: { request: this.request } as never, seal: of, namespace: NAMESPACE });
  }

  #put(object: ConfigMap): ConfigMap {
    const metadata = { ...object.metadata, namespace: NAMESPACE, resourceVersion: String(++this.#version) };
    const stored = { ...object, metadata };
    this.objects.set(metadata.name, stored);
    return stored;
  }

  /** Objects that are not sealed have a MiB. */
  #list({ limit, continue: next = '0' }: NonNullable<KubeRequest['query']>, maxBytes: number) {
    const all = [...this.objects.values()].filter(({ metadata }) => KEY_LABEL in metadata.labels);
    const [from, to] = [Number(next), Number(next) + Number(limit)];
    const items = all.slice(from, to);
    if (items.filter((item) => !('data' in item)).length * MIB > maxBytes) throw new AnswerTooLarge(maxBytes);
    const more = to < all.length ? { continue: String(to) } : {};
    return { metadata: { resourceVersion: '1', ...more }, items };
  }
}

t.test('large ConfigMaps of others do not keep a key from its end', async (t) => {
  const cluster = new Cluster();
  const { key } = await cluster.keys().create({ name: 'ci' });
  for (let n = 0; n < 300; n++)
    cluster.objects.set(`x${n}`, {
      metadata: { name: `x${n}`, labels: { [KEY_LABEL]: 'valid' }, resourceVersion: '1' },
    });
  const keys = cluster.keys();
  t.match(await keys.list(), [{ name: 'ci' }]);
  t.equal(keys.unread, 300);
  t.match(await keys.revoke(key.id), [{ name: 'ci' }]);
});

t.test('a key without its label is revoked by its name', async (t) => {
  const cluster = new Cluster();
  const keys = cluster.keys();
  await keys.create({ name: 'ci' });
  const name = toKeyObjectName('ci');
  const object = cluster.objects.get(name);
  if (object === undefined) throw new Error('no object');
  cluster.objects.set(name, { ...object, metadata: { ...object.metadata, labels: {} } });
  t.match(await keys.list(), []);
  t.match(await keys.revoke('ci'), [{ name: 'ci' }]);
  t.match(await keys.list(), [{ name: 'ci', revokedAtMs: Number }], 'its label is there again');
  await t.rejects(keys.revoke('ci'), { code: 'not_found' });
  await t.rejects(keys.revoke('../pods/x'), { code: 'not_found' }, 'no path');
});

t.test('a later key of a name has a later time, whatever the clocks', async (t) => {
  const cluster = new Cluster();
  const keys = cluster.keys();
  const now = Date.now;
  t.teardown(() => {
    Date.now = now;
  });
  Date.now = () => 1_000_000;
  await keys.create({ name: 'ci' });
  await keys.revoke('ci');
  Date.now = () => 5;
  t.match((await keys.create({ name: 'ci' })).key, { createdAtMs: 1_000_001 });
});

t.test('another secret than that of the keys which are there is noticed', async (t) => {
  const cluster = new Cluster();
  await cluster.keys().create({ name: 'ci' });
  const wrong = cluster.keys(other);
  await wrong.create({ name: 'b' });
  t.equal(wrong.unread, 1);
  await t.rejects(wrong.revoke('ci'), { code: 'not_found' });
  t.equal(wrong.unread, 1);
});
