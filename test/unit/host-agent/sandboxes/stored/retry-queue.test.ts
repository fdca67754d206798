// Work that is repeated until it is done.
import t from 'tap';
import { RetryQueue } from '../../../../../host-agent/src/sandboxes/stored/retry-queue.ts';
import { until } from '../../../../support/until.ts';

t.test(
  'what fails is repeated, what is added meanwhile is done once more, what is forgotten is not',
  async (t) => {
    const calls: string[] = [];
    const gates = new Map<string, () => void>();
    let fails = 1;
    const failures: string[] = [];
    const queue = new RetryQueue({
      concurrency: 2,
      work: async (id) => {
        calls.push(id);
        if (id === 'bad' && fails-- > 0) throw new Error('not yet');
        if (id.startsWith('slow')) await new Promise<void>((done) => gates.set(id, done));
      },
      onFailure: (id, _error, retryMs) => failures.push(`${id} ${retryMs > 0}`),
    });
    queue.add('bad');
    await until(() => failures.length === 1);
    t.same(failures, ['bad true']);
    t.equal(queue.size, 1);
    queue.add('bad');
    for (const id of ['slow-1', 'slow-2', 'slow-3']) queue.add(id);
    await until(() => gates.size === 2);
    t.ok(queue.isRunning('slow-1'));
    t.notOk(queue.isRunning('slow-3'), 'two at a time');
    queue.add('slow-1');
    queue.forget('slow-3');
    gates.get('slow-2')?.();
    gates.get('slow-1')?.();
    await until(() => calls.filter((id) => id === 'slow-1').length === 2);
    gates.get('slow-1')?.();
    await until(() => queue.size === 0);
    t.same(calls, ['bad', 'slow-1', 'slow-2', 'slow-1', 'bad']);
    queue.add('slow-4');
    await until(() => gates.has('slow-4'));
    const stopped = queue.stop();
    queue.add('never');
    gates.get('slow-4')?.();
    await stopped;
    t.notOk(calls.includes('never'));
  },
);
