// What a gateway has is shared by keys and by tenants: those who make keys get no more.
import { PassThrough } from 'node:stream';
import t from 'tap';
import { readJsonBody } from '../../../../host-agent/src/fleet/front/body.ts';
import { HostStreams } from '../../../../host-agent/src/fleet/front/events/host-streams.ts';
import { FanOutLimits } from '../../../../host-agent/src/fleet/front/fan-out.ts';
import { KeyedRequests } from '../../../../host-agent/src/fleet/front/keyed.ts';
import { Shares } from '../../../../host-agent/src/fleet/front/shares.ts';

const keyOf = (tenant: string | undefined, n: number) => ({
  ...{ tenant, digest: `${tenant} ${n}`, hasKey: true },
});

/** Takes with ever more keys of a tenant until nothing is left for it. */
async function takeAll(take: (key: ReturnType<typeof keyOf>) => unknown): Promise<number> {
  let taken = 0;
  for (let key = 0; ; key++) {
    const before = taken;
    try {
      for (;;) {
        await take(keyOf('greedy', key));
        taken += 1;
      }
    } catch {
      if (before === taken) return taken;
    }
  }
}

t.test('requests to all hosts', async (t) => {
  const limits = new FanOutLimits();
  const slots: Disposable[] = [];
  t.equal(await takeAll((key) => slots.push(limits.acquire(key))), 512);
  t.doesNotThrow(() => limits.acquire(keyOf('modest', 0)));
  for (const slot of slots) slot[Symbol.dispose]();
  t.equal(await takeAll((key) => slots.push(limits.acquire(key))), 512, 'it is given back');
});

t.test('memory of answers', async (t) => {
  const limits = new FanOutLimits();
  const taken = await takeAll((key) => limits.acquire(key).add(2 ** 25));
  t.equal(taken, 12, 'half of 768 MiB');
  t.doesNotThrow(() => limits.acquire(keyOf('modest', 0)).add(2 ** 25));
});

t.test('requests with an Idempotency-Key, and streams of hosts', async (t) => {
  const keyed = new KeyedRequests();
  const request = { headers: { 'idempotency-key': 'x' } } as never;
  t.equal(await takeAll((key) => keyed.admit(request, key)), 512);
  t.ok(keyed.admit(request, keyOf('modest', 0)));
  const streams = new HostStreams();
  t.equal(await takeAll((key) => streams.acquire(key, 320)), 25);
  t.ok(streams.acquire(keyOf('modest', 0), 320));
});

t.test('memory of bodies', async (t) => {
  const bodies: Disposable[] = [];
  const read = async (key: ReturnType<typeof keyOf>) => {
    const body = new PassThrough();
    const request = Object.assign(body, { headers: {}, complete: true });
    body.end(Buffer.alloc(2 ** 20, ' '));
    bodies.push(await readJsonBody(request as never, {} as never, key));
  };
  t.equal(await takeAll(read), 32, 'half of 64 MiB');
  await read(keyOf('modest', 0));
  for (const body of bodies.splice(0)) body[Symbol.dispose]();
  t.equal(await takeAll(read), 32, 'it is given back');
  for (const body of bodies) body[Symbol.dispose]();
});

t.test('clients without a key, and keys without a tenant', (t) => {
  const shares = new Shares(10, 4);
  const anonymous = { tenant: undefined, digest: '', hasKey: false };
  t.ok(shares.take(anonymous, 9));
  t.notOk(shares.take(anonymous, 2));
  shares.giveBack(anonymous, 9);
  t.ok(shares.take(keyOf(undefined, 0), 4));
  t.notOk(shares.take(keyOf(undefined, 0), 1));
  t.ok(shares.take(keyOf(undefined, 1), 4));
  t.notOk(shares.take(keyOf(undefined, 2), 4), 'all');
  t.end();
});
