// The create rate limit of a tenant.
import t from 'tap';
import { Limits } from '../../../../host-agent/src/keys/index.ts';
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
const caller = { id: '0123456789abcdef', key: 'k', tenant: 'acme' };

t.test('failed requests count, and counting costs no more for many', async (t) => {
  const clock = new FakeClock(t);
  const readClock = t.capture(Date, 'now', Date.now);
  let most: number | undefined;
  const limits = new Limits({
    quotaOf: () => (most === undefined ? {} : { max_creates_per_minute: most }),
    sandboxes: () => [],
    snapshots: () => [],
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
  clock.nowMs += 62_000;
  most = 64;
  ask();
});
