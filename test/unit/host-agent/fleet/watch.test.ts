// The copy of a kind of objects, of which strangers make some: large, many, and written in the longest way.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { KubeClient } from '../../../../host-agent/src/fleet/kube/client.ts';
import { Watch } from '../../../../host-agent/src/fleet/kube/watch.ts';
import { until } from '../../../support/until.ts';

const MIB = 2 ** 20;

type Served = { readonly limits: number[]; readonly client: KubeClient };

async function serve(t: Test, items: readonly object[], events: readonly string[]): Promise<Served> {
  const limits: number[] = [];
  const server = createServer((request, response) => {
    const query = new URL(request.url ?? '/', 'http://x').searchParams;
    if (query.get('watch') === 'true') {
      response.flushHeaders();
      for (const event of events) response.write(event);
      return;
    }
    const [limit, from] = [Number(query.get('limit')), Number(query.get('continue') ?? 0)];
    limits.push(limit);
    const more = from + limit < items.length ? { continue: String(from + limit) } : {};
    response.end(
      JSON.stringify({ metadata: { resourceVersion: '1', ...more }, items: items.slice(from, from + limit) }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  t.teardown(() => server.closeAllConnections());
  const { port } = server.address() as AddressInfo;
  const client = new KubeClient({ server: new URL(`http://127.0.0.1:${port}`) } as never);
  t.teardown(() => client.close());
  return { limits, client };
}

t.test('a page that is too large is asked for again in parts, and strangers are not kept', async (t) => {
  const items = Array.from({ length: 40 }, (_, n) => ({ n, text: 'x'.repeat(MIB) }));
  const { limits, client } = await serve(t, items, []);
  const lists: (readonly number[])[] = [];
  const watch = new Watch<number>({
    ...{ client, path: '/things', log: pino({ level: 'silent' }), onChange: () => undefined },
    read: (object) => {
      const { n } = object as { n: number };
      return n % 2 === 0 ? n : undefined;
    },
    onList: (list) => lists.push(list),
  });
  t.teardown(() => watch.close());
  watch.start();
  await until(() => watch.isCurrent, 'it is current');
  t.equal(lists.length, 1);
  t.equal(lists[0]?.length, 20);
  t.same(limits, [500, 125, 31, ...Array<number>(6).fill(7)]);
});

t.test('an event whose JSON is many times its object arrives, and the next one', async (t) => {
  const event = (n: number, text: string): string =>
    `${JSON.stringify({ type: 'ADDED', object: { metadata: {}, n, text } }).replaceAll('<', '\\u003c')}\n`;
  const large = event(1, '<'.repeat(1.5 * MIB));
  t.ok(large.length > 8 * MIB);
  const { client } = await serve(t, [], [large, `${event(2, '')}${event(3, '')}\n`]);
  const seen: number[] = [];
  const watch = new Watch({
    ...{ client, path: '/things', log: pino({ level: 'silent' }), onList: () => undefined },
    read: () => undefined,
    onChange: (_, object) => void seen.push((object as { n: number }).n),
  });
  t.teardown(() => watch.close());
  watch.start();
  await until(() => seen.length === 3, 'three events');
  t.same(seen, [1, 2, 3]);
});
