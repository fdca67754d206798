// A command that cannot start for lack of descriptors, at each step: no descriptor leaks.
import '../support/addon-dir.ts';
import { closeSync, openSync, readFileSync } from 'node:fs';
import type { Exec } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { launch } from '../../../../guest-agent/src/exec/launch.ts';
import { until } from '../../../support/until.ts';
import { openDescriptors } from '../support/open-descriptors.ts';

const REQUEST = { env: ['HOME=/root'], cwd: '', user: '', timeoutMs: 0 };
const NO_CGROUP = { name: '', fd: -1, processes: {} } as never;
/**
 * Started as commands are. Node's own process API would take the exit events of children from the agents of other
 * tests.
 */
/**
 * Started as commands are: Node's own way of starting programs would take the end of children from the agents of other
 * tests.
 */
function start(cmd: string[]): void {
  const { descriptors } = launch({ ...REQUEST, cmd, stdin: false } as Exec, NO_CGROUP);
  for (const fd of [descriptors.output, descriptors.error ?? -1]) closeSync(fd);
}

const softLimit = (): string =>
  /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? '';

async function limitDescriptors(t: Test, most: string): Promise<void> {
  const before = softLimit();
  const set = async (value: string): Promise<void> => {
    start(['prlimit', '--pid', String(process.pid), `--nofile=${value}:`]);
    await until(() => softLimit() === value);
  };
  await set(most);
  t.teardown(() => set(before));
}

/** Uses up all descriptors except `free`; releases them at the end. */
function leave(t: Test, free: number): void {
  const taken: number[] = [];
  t.teardown(() => {
    for (const fd of taken) closeSync(fd);
  });
  for (;;) {
    try {
      taken.push(openSync('/dev/null', 'r'));
    } catch {
      break;
    }
  }
  for (const fd of taken.splice(-free, free)) closeSync(fd);
}

t.test('a command that lacks descriptors says so, and leaves none', async (t) => {
  await limitDescriptors(t, '128');
  const kinds = {
    'with input': { ...REQUEST, cmd: ['true'], stdin: true },
    'without input': { ...REQUEST, cmd: ['true'], stdin: false },
    'with a terminal': { ...REQUEST, cmd: ['true'], stdin: true, tty: { cols: 80, rows: 24 } },
  };
  for (const [name, request] of Object.entries(kinds))
    await t.test(name, async (t) => {
      const needed = name === 'with input' ? 6 : name === 'without input' ? 4 : 2;
      for (let free = 1; free < needed; free++)
        await t.test(`${free} are left`, async (t) => {
          leave(t, free);
          t.throws(() => launch(request as Exec, NO_CGROUP), {
            name: 'LaunchError',
            message: /^no descriptors for the command: /,
          });
          // The remaining descriptors are available again, and no more.
          const again = Array.from({ length: free }, () => openSync('/dev/null', 'r'));
          t.throws(() => openSync('/dev/null', 'r'), { code: 'EMFILE' });
          for (const fd of again) closeSync(fd);
        });
    });
});

t.test('a command that cannot start leaves no descriptor', (t) => {
  const before = openDescriptors();
  for (const request of [
    { ...REQUEST, cmd: ['/nope'], stdin: true },
    { ...REQUEST, cmd: ['/nope'], stdin: true, tty: { cols: 80, rows: 24 } },
    { ...REQUEST, cmd: ['true'], user: 'nobody-here' },
  ])
    t.throws(() => launch(request as Exec, NO_CGROUP), { name: 'LaunchError' });
  t.equal(openDescriptors(), before);
  t.end();
});
