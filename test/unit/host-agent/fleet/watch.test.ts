// The copy of a kind of objects, of which strangers make some: large, many, and written in the longest way.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { addAbortSignal, PassThrough } from 'node:stream';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import {
  AnswerTooLarge,
  KubeClient,
  type KubeRequest,
} from '../../../../host-agent/src/fleet/kube/client.ts';
import { Watch } from '../../../../host-agent/src/fleet/kube/watch.ts';
import { until } from '../../../support/until.ts';

const MIB = 2 ** 20;

/** A server with an empty list and these events. */
async function serve(t: Test, events: readonly string[]): Promise<KubeClient> {
  const server = createServer((request, response) => {
    if (!request.url?.includes('watch=true')) {
      response.end(JSON.stringify({ metadata: { resourceVersion: '1' }, items: [] }));
      return;
    }
    response.flushHeaders();
    for (const event of events) response.write(event);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  t.teardown(() => server.closeAllConnections());
  const { port } = server.address() as AddressInfo;
  const client = new KubeClient({ server: new URL(`http://127.0.0.1:${port}`) } as never);
  t.teardown(() => client.close());
  return client;
}

t.test('an answer over the limit of its request is an error of its own', async (t) => {
  const client = await serve(t, []);
  const request = { method: 'GET', path: '/things' } as const;
  t.match(await client.request({ ...request, maxBytes: 100 }), { items: [] });
  await t.rejects(client.request({ ...request, maxBytes: 10 }), {
    code: 'upstream',
    message: /over 10 bytes/,
  });
});

t.test('a page that is too large is asked for again in parts, and strangers are not kept', async (t) => {
  const items = Array.from({ length: 40 }, (_, n) => n);
  const limits: number[] = [];
  const client = {
    request: async ({ query = {}, maxBytes = 0 }: KubeRequest) => {
      const [limit, from] = [Number(query.limit), Number(query.continue ?? 0)];
      limits.push(limit);
      const found = items.slice(from, from + limit);
      if (found.length * MIB > maxBytes) throw new AnswerTooLarge(maxBytes);
      const more = from + limit < items.length ? { continue: String(from + limit) } : {};
      return { metadata: { resourceVersion: '1', ...more }, items: found };
    },
    stream: async (_: unknown, signal: AbortSignal) => addAbortSignal(signal, new PassThrough()),
  };
  const lists: (readonly number[])[] = [];
  const watch = new Watch<number>({
    ...{ path: '/things', log: pino({ level: 'silent' }), onChange: () => undefined },
    client: client as unknown as KubeClient,
    read: (object) => (Number(object) % 2 === 0 ? Number(object) : undefined),
    onList: (list) => lists.push(list),
  });
  t.teardown(() => watch.close());
  watch.start();
  await until(() => watch.isCurrent, 'it is current');
  t.same(
    lists.map((list) => list.length),
    [20],
  );
  t.same(limits, [500, 125, 31, 7, 7, 7, 14, 14]);
});

t.test('one large object makes the pages after it no smaller for good', async (t) => {
  const sizes = [...Array<number>(20).fill(1), 15 * MIB, 15 * MIB, ...Array<number>(5000).fill(1)];
  const limits: number[] = [];
  const client = {
    request: async ({ query = {}, maxBytes = 0 }: KubeRequest) => {
      const [limit, from] = [Number(query.limit), Number(query.continue ?? 0)];
      limits.push(limit);
      const found = sizes.slice(from, from + limit);
      if (found.reduce((sum, each) => sum + each, 0) > maxBytes) throw new AnswerTooLarge(maxBytes);
      const more = from + limit < sizes.length ? { continue: String(from + limit) } : {};
      return { metadata: { resourceVersion: '1', ...more }, items: found };
    },
    stream: async (_: unknown, signal: AbortSignal) => addAbortSignal(signal, new PassThrough()),
  };
  const watch = new Watch<number>({
    ...{ path: '/things', log: pino({ level: 'silent' }), onChange: () => undefined },
    ...{ client: client as unknown as KubeClient, onList: () => undefined },
    read: () => undefined,
  });
  t.teardown(() => watch.close());
  watch.start();
  await until(() => watch.isCurrent, 'it is current');
  t.ok(limits.length < 60, `${limits.length} requests`);
});

t.test('a watch that breaks goes on behind what it has seen', async (t) => {
  const event = (type: string, version: number): string =>
    `${JSON.stringify({ type, object: { metadata: { resourceVersion: String(version) } } })}\n`;
  const asked: string[] = [];
  const seen: string[] = [];
  const client = {
    request: async () => ({ metadata: { resourceVersion: '1' }, items: [] }),
    stream: async ({ query }: KubeRequest, signal: AbortSignal) => {
      asked.push(String(query?.resourceVersion));
      const answer = addAbortSignal(signal, new PassThrough());
      if (asked.length > 1) return answer;
      answer.write(`${event('ADDED', 2)}${event('DELETED', 3)}${event('BOOKMARK', 7)}`);
      void until(() => seen.length === 2).then(() => answer.destroy(new Error('the connection broke')));
      return answer;
    },
  };
  const watch = new Watch<number>({
    ...{ path: '/things', log: pino({ level: 'silent' }), onList: () => undefined },
    ...{ client: client as unknown as KubeClient, read: () => undefined },
    onChange: (change) => seen.push(change),
  });
  t.teardown(() => watch.close());
  watch.start();
  await until(() => asked.length === 2, 'it asks again');
  t.same(seen, ['put', 'deleted']);
  t.same(asked, ['1', '7']);
});

t.test('an event whose JSON is many times its object arrives, and the next one', async (t) => {
  const event = (n: number, text: string): string =>
    `${JSON.stringify({ type: 'ADDED', object: { metadata: {}, n, text } }).replaceAll('<', '\\u003c')}\n`;
  const large = event(1, '<'.repeat(1.5 * MIB));
  t.ok(large.length > 8 * MIB);
  const client = await serve(t, [large, `${event(2, '')}${event(3, '')}\n`]);
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
