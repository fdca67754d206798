// Tasks in a queue: an aborted wait leaves the queue, and a running task is never abandoned.
import PQueue from 'p-queue';
import t from 'tap';
import { enqueue } from '../../../../host-agent/src/lib/concurrency-limit.ts';

t.test('at most so many run at once, in order of arrival', async (t) => {
  const queue = new PQueue({ concurrency: 2 });
  const gates = [0, 1, 2, 3].map(() => Promise.withResolvers<void>());
  const begun: number[] = [];
  const turns = gates.map(({ promise }, index) =>
    enqueue(queue, async () => {
      begun.push(index);
      await promise;
      return index;
    }),
  );
  await new Promise(setImmediate);
  t.same(begun, [0, 1]);
  gates[1]!.resolve();
  await turns[1];
  await new Promise(setImmediate);
  t.same(begun, [0, 1, 2]);
  for (const { resolve } of gates) resolve();
  t.same(await Promise.all(turns), [0, 1, 2, 3]);
});

t.test('one that waits leaves at once; one that runs keeps its turn until it is done', async (t) => {
  const queue = new PQueue({ concurrency: 1 });
  const [running, waiting] = [new AbortController(), new AbortController()];
  const gate = Promise.withResolvers<void>();
  let isUndone = false;
  const first = enqueue(
    queue,
    async () => {
      await gate.promise;
      isUndone = true;
      throw new Error('cancelled in order');
    },
    running.signal,
  );
  const second = enqueue(queue, () => Promise.resolve(t.fail('nobody wants it')), waiting.signal);
  const third = enqueue(queue, async () => isUndone);
  await new Promise(setImmediate);
  waiting.abort(new Error('left'));
  await t.rejects(second, { message: 'left' });
  running.abort(new Error('left, too'));
  await new Promise(setImmediate);
  gate.resolve();
  await t.rejects(first, { message: 'cancelled in order' });
  t.ok(await third, 'the next began when everything was undone');
  await t.rejects(
    enqueue(queue, async () => t.fail('came too late'), AbortSignal.abort(new Error('gone before'))),
    { message: 'gone before' },
  );
});
