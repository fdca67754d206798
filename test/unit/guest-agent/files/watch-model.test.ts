// Programs change a tree at random while it is watched; what the events make is what is there.
import '../support/addon-dir.ts';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { apply, changes, readTree, TreeModel } from '../../../support/changed-tree.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';
import { startLocalAgent } from '../support/local-agent.ts';
import { openWatch } from '../support/watched.ts';

t.setTimeout(scaled(300_000));
const SEEDS = Number(process.env.SEEDS ?? 6);
const PROGRAM = join(import.meta.dirname, '../support/change-tree.ts');

type Form = {
  readonly seed: number;
  /** The tree exists before the watch, and changes while the client lists it. */
  readonly hasPast: boolean;
};

function startPrograms(top: string, seed: number): ChildProcess[] {
  return [0, 1, 2].map((at) =>
    spawn(process.execPath, [PROGRAM, top, String(seed + at * 77), '3000'], { stdio: 'inherit' }),
  );
}

async function compare(t: Test, { seed, hasPast }: Form): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'watch-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  mkdirSync(join(dir, 'top'));
  const top = join(dir, 'top');
  const children: ChildProcess[] = [];
  if (hasPast) {
    for (const change of changes(seed + 1000, 300)) apply(top, change);
    const past = [...readTree(top)].join();
    children.push(...startPrograms(top, seed));
    await until(() => [...readTree(top)].join() !== past, 'the first change', 60_000);
  }
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const model = new TreeModel();
  const log: string[] = [];
  let isArmed = false;
  let ended = '';
  const watching = openWatch(
    channel,
    top,
    {},
    (records, bytes) => {
      for (const record of records) {
        if ('path' in record) {
          const { type, path, from, isDirectory } = record;
          log.push(`${type} ${from ?? ''} ${path}${isDirectory ? '/' : ''}`);
          model.apply({ type, path: String(path), from: from && String(from), isDirectory });
        } else {
          log.push(record.type);
          isArmed = true;
          model.tree = readTree(top);
        }
      }
      queueMicrotask(() => watching.consumed(bytes));
    },
    (reason) => {
      ended = reason;
    },
  );
  await until(() => isArmed || ended !== '', 'armed', 20_000);
  if (!hasPast) children.push(...startPrograms(top, seed));
  await Promise.all(children.map((child) => child.exitCode ?? once(child, 'exit')));
  writeFileSync(join(top, 'mark'), '');
  await until(() => model.tree.has('mark') || ended !== '', `the mark of seed ${seed}: ${ended}`, 60_000);
  t.equal(ended, '');
  const real = new TreeModel();
  real.tree = readTree(top);
  t.same(model.sorted, real.sorted, `seed ${seed}`);
  if (model.sorted.join() !== real.sorted.join()) t.comment(log.slice(-200).join('\n'));
  t.same(agent.faults, []);
  watching.cancel();
  for (const socket of agent.sockets) socket.destroy();
}

t.test('from an empty directory, by the events alone', async (t) => {
  for (let seed = 1; seed <= SEEDS; seed++)
    await t.test(`seed ${seed}`, (t) => compare(t, { seed, hasPast: false }));
});

t.test('from a directory that is listed', async (t) => {
  for (let seed = 1; seed <= SEEDS; seed++)
    await t.test(`seed ${seed}`, (t) => compare(t, { seed, hasPast: true }));
});
