// Background clean-up after a delete.
import { pino } from 'pino';
import t from 'tap';
import type { Sandbox } from '../../../../host-agent/src/sandboxes/sandbox.ts';
import { Sweeps } from '../../../../host-agent/src/sandboxes/sweeps.ts';
import { until } from '../../../support/until.ts';

/** Fails a given number of times. */
function sandboxThatFails(
  id: string,
  times: number,
): { readonly sandbox: Sandbox; readonly tries: () => number } {
  let tries = 0;
  const sweep = async (): Promise<void> => {
    if (++tries <= times) throw new Error(`no ${tries}`);
  };
  return { sandbox: { id, sweep } as Sandbox, tries: () => tries };
}

function make(retryMs: number): { readonly sweeps: Sweeps; readonly lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  return { sweeps: new Sweeps(log, retryMs), lines };
}

t.test('a failure is logged and retried until nothing is left', async (t) => {
  const { sweeps, lines } = make(1);
  const { sandbox, tries } = sandboxThatFails('sbx_a', 2);
  sweeps.start(sandbox);
  t.same(sweeps.sandboxes, [sandbox]);
  await until(() => sweeps.sandboxes.length === 0);
  t.equal(tries(), 3);
  t.match(lines, [
    { sandbox: 'sbx_a', err: { message: 'no 1' } },
    { sandbox: 'sbx_a', err: { message: 'no 2' } },
  ]);
  t.equal(sweeps.next(), undefined);
  await sweeps.finish();
});

t.test('at the end everything is tried a last time, and a failure is reported', async (t) => {
  const { sweeps } = make(20);
  const { sandbox, tries } = sandboxThatFails('sbx_a', 9);
  sweeps.start(sandbox);
  await sweeps.next();
  await t.rejects(sweeps.finish(), { message: 'no 2' });
  await new Promise((resolve) => setTimeout(resolve, 60));
  t.equal(tries(), 2);
});

t.test('attempts in progress are awaited and not started twice', async (t) => {
  const { sweeps } = make(10_000);
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let tries = 0;
  for (const { promise } of gates)
    sweeps.start({
      id: 'sbx_a',
      sweep: () => {
        tries++;
        return promise;
      },
    } as unknown as Sandbox);
  t.equal(sweeps.sandboxes.length, 2);
  let isOver = false;
  const finished = sweeps.finish().then(() => {
    isOver = true;
  });
  const next = sweeps.next();
  gates[0]?.resolve();
  await next;
  await new Promise(setImmediate);
  t.same([sweeps.sandboxes.length, isOver], [1, false]);
  gates[1]?.resolve();
  await finished;
  t.same([tries, sweeps.sandboxes.length, sweeps.next()], [2, 0, undefined]);
});

t.test('a retry after everything is gone does nothing', async (t) => {
  const timers = new Set<() => void>();
  t.intercept(globalThis, 'setTimeout', {
    value: (retry: () => void) => {
      timers.add(retry);
      const timer = { unref: () => timer };
      return timer;
    },
  });
  const { sweeps } = make(10_000);
  const { sandbox, tries } = sandboxThatFails('sbx_a', 1);
  sweeps.start(sandbox);
  await sweeps.next();
  t.equal(timers.size, 1);
  sweeps.start(sandbox);
  await sweeps.next();
  for (const retry of timers) retry();
  t.equal(tries(), 2);
  t.same(sweeps.sandboxes, []);
});
