// A guest is saved once it has nothing left to do.
import t from 'tap';
import { settle } from '../../../../host-agent/src/sandboxes/warm.ts';

const { signal } = new AbortController();

t.test(
  'a guest that still works is waited for, one that is quiet is not waited for any longer',
  async (t) => {
    let looks = 0;
    const work = [0, 100, 200, 300, 305, 310, 315, 320];
    await settle(() => work[Math.min(looks++, work.length - 1)], signal);
    t.equal(looks, work.length);
  },
);

t.test('one short rest is none', async (t) => {
  let looks = 0;
  const work = [0, 100, 100, 100, 200, 200, 200, 200, 200];
  await settle(() => work[Math.min(looks++, work.length - 1)], signal);
  t.equal(looks, work.length);
});

t.test('a VMM that is gone is not waited for, and a wait ends with its signal', async (t) => {
  await settle(() => undefined, signal);
  const cause = new Error('stopped');
  let cpuMs = 0;
  await t.rejects(
    settle(() => (cpuMs += 100), AbortSignal.abort(cause)),
    { cause },
  );
});
