// The create rate limit of a tenant, and who refuses a request.
import t from 'tap';
import { ANONYMOUS, canSee, Limits, OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import type { RequestedResources } from '../../../../host-agent/src/keys/policy.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

const WANTED: RequestedResources = {
  count: 64,
  areForks: true,
  vcpus: 1,
  memoryMib: 128,
  diskBytes: 2 ** 26,
  timeoutS: 0,
  idleTimeoutS: 0,
  savesItself: false,
  rootfs: { kind: 'profile', name: 'base' },
  startsService: false,
};
const caller = { kind: 'key', id: '0123456789abcdef', key: 'k', tenant: 'acme' } as const;

t.test('failed requests count, and counting costs no more for many', async (t) => {
  const clock = new FakeClock(t);
  const readClock = t.capture(Date, 'now', Date.now);
  let most: number | undefined;
  const limits = new Limits({
    quotaOf: () => (most === undefined ? {} : { max_creates_per_minute: most }),
    policyOfOwner: () => undefined,
    sandboxes: () => [],
    snapshots: () => [],
    storedBytes: () => 0,
    publishPorts: [],
  });
  const ask = () => limits.admit({ principal: caller }, WANTED)[Symbol.dispose]();
  for (let at = 0; at < 1000; at++) {
    ask();
    clock.nowMs += 20;
  }
  const looks = readClock().length;
  t.ok(looks <= 4000, `${looks} looks at the clock`);
  most = 64_000;
  t.throws(ask, { message: /creates within a minute of tenant acme 64064 is over max_creates_per_minute/ });
  clock.nowMs += 45_000;
  ask();
  clock.nowMs += 60_000;
  most = 64;
  ask();
});

t.test('a refusal names the policy, the quota, or both', async (t) => {
  const limits = new Limits({
    quotaOf: () => ({ max_vcpus: 63, max_snapshots: 0 }),
    policyOfOwner: () => undefined,
    sandboxes: () => [],
    snapshots: () => [],
    storedBytes: () => 0,
    publishPorts: [],
  });
  const refuse = (principal: typeof caller & { policy?: object }) => () =>
    limits.admit({ principal }, WANTED);
  t.throws(refuse(caller), {
    code: 'forbidden',
    message: /^the quota of tenant "acme" forbids it: vcpus of tenant acme 64 is over max_vcpus 63; /,
  });
  const policy = { max_memory_mib: 64 };
  t.throws(refuse({ ...caller, policy }), {
    message:
      /^the policy of key "k" and the quota of tenant "acme" forbid it: memory_mib 128 .*; vcpus of tenant/,
  });
  t.throws(() => limits.admit({ principal: { kind: 'key', id: 'i', key: 'k', policy } }, WANTED), {
    message: /^the policy of key "k" forbids it: memory_mib 128 is over max_memory_mib 64; /,
  });
  t.throws(() => limits.admitSnapshot({ owner: { key: 'k', tenant: 'acme' } }), {
    message: /^the quota of tenant "acme" forbids it: snapshots of tenant acme 1 is over max_snapshots 0; /,
  });
});

t.test('who has no key and is not the operator sees nothing', async (t) => {
  for (const owner of [undefined, { key: 'k' }, { key: 'k', tenant: 'acme' }]) {
    t.notOk(canSee(ANONYMOUS, owner));
    t.ok(canSee(OPERATOR, owner));
    t.equal(canSee(caller, owner), owner?.tenant === 'acme');
  }
});

t.test('the use of limits counts what the refusals count', async (t) => {
  const tenant = 'acme';
  const holding = { vcpus: 2, memoryMib: 256, diskBytes: 2 ** 26 };
  const sandboxes = [
    { ...holding, owner: { key: 'k', tenant } },
    { ...holding, owner: { key: 'k', tenant }, isPaused: true },
    { ...holding, owner: { key: 'other', tenant }, publish: [{ hostPort: 8080, guestPort: 80 }] as never },
    { ...holding, owner: { key: 'k' } },
    { ...holding, owner: undefined },
  ];
  const limits = new Limits({
    quotaOf: (of) => ({
      max_vcpus: of === tenant ? 5 : 1,
      max_sandboxes: 9,
      max_paused: 2,
      max_creates_per_minute: 90,
    }),
    policyOfOwner: () => undefined,
    sandboxes: () => sandboxes,
    snapshots: () => [{ key: 'k', tenant }, { key: 'other', tenant }, undefined],
    storedBytes: () => 0,
    publishPorts: [],
  });
  t.same(limits.usage(OPERATOR), []);
  t.same(limits.usage(ANONYMOUS), []);
  const policy = { max_sandboxes: 3, max_snapshots: 4, max_vcpus: 2, operations: ['view' as const] };
  const of = (principal: Parameters<Limits['usage']>[0]) =>
    limits.usage(principal).map(({ limit, of, used, max }) => `${of} ${limit} ${used}/${max}`);
  t.same(of({ kind: 'key', id: 'i', key: 'k', policy }), ['key max_sandboxes 1/3', 'key max_snapshots 0/4']);
  const ofAcme = [
    'tenant max_sandboxes 2/9',
    'tenant max_vcpus 4/5',
    'tenant max_paused 1/2',
    'tenant max_creates_per_minute 0/90',
  ];
  t.same(of({ ...caller, policy }), ['key max_sandboxes 1/3', 'key max_snapshots 1/4', ...ofAcme]);
  {
    using _ = limits.admit({ principal: caller }, { ...WANTED, count: 1, vcpus: 1 });
    t.match(of(caller), ['tenant max_sandboxes 3/9', 'tenant max_vcpus 5/5']);
  }
  t.match(of(caller).at(-1), 'tenant max_creates_per_minute 1/90');
  t.throws(() => limits.admit({ principal: caller }, { ...WANTED, count: 1, vcpus: 2 }), {
    message: /vcpus of tenant acme 6 is over max_vcpus 5/,
  });
});
