// What goes on behind the answer of a delete.
import { pino } from 'pino';
import t from 'tap';
import type { Sandbox } from '../../../../host-agent/src/sandboxes/sandbox.ts';
import { Sweeps } from '../../../../host-agent/src/sandboxes/sweeps.ts';
import { until } from '../../../support/until.ts';

/** Fails as often as it shall. */
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

t.test('a failure is logged and tried again until nothing is left', async (t) => {
  const { sweeps, lines } = make(1);
  const { sandbox, tries } = sandboxThatFails('sbx_a', 2);
  sweeps.begin(sandbox);
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

t.test('at the end all is tried a last time, and what is left is said', async (t) => {
  const { sweeps } = make(20);
  const { sandbox, tries } = sandboxThatFails('sbx_a', 9);
  sweeps.begin(sandbox);
  await sweeps.next();
  await t.rejects(sweeps.finish(), { message: 'no 2' });
  await new Promise((resolve) => setTimeout(resolve, 60));
  t.equal(tries(), 2);
});
