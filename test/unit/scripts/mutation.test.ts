// The logic of `make mutation`: detection of hangs and log calls, and the report.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import t, { type Test } from 'tap';
import { logCalls } from '../../../scripts/mutation/log-calls.ts';
import { StallWatch } from '../../../scripts/mutation/stall-watch.ts';
import { summarize } from '../../../scripts/mutation/summary.ts';
import { closeBench, openBench, openWorkplace, removePlace } from '../../../scripts/mutation/workplace.ts';

function run(t: Test, program: string): ChildProcess {
  const child = spawn('sh', ['-c', '"$@" & wait $!', 'sh', process.execPath, '-e', program], {
    stdio: 'ignore',
    detached: true,
  });
  t.teardown(() => process.kill(-(child.pid ?? 0), 'SIGKILL'));
  return child;
}

function stallOf(
  t: Test,
  program: string,
  limits: { idleMs: number; cpuMs: number },
): Promise<string | undefined> {
  const watch = new StallWatch(limits);
  const child = run(t, program);
  return new Promise((resolve) => {
    const stop = watch.start(child.pid ?? 0, () => {
      stop();
      resolve(watch.stall);
    });
  });
}

t.test('a process that waits forever is distinguished from one that computes forever', async (t) => {
  const limits = { idleMs: 2000, cpuMs: 2000 };
  t.match(await stallOf(t, 'setInterval(() => {}, 1000)', limits), /hangs/);
  t.match(await stallOf(t, 'for (;;);', limits), /exceeded/);
});

t.test('a process that computes now and then does not wait', async (t) => {
  const limits = { idleMs: 5000, cpuMs: 800 };
  const program = 'setInterval(() => { const end = Date.now() + 600; while (Date.now() < end); }, 1000)';
  t.match(await stallOf(t, program, limits), /exceeded/);
});

t.test('calls of a logger are left alone, and nothing else', (t) => {
  const call = (object: object, method: string) => ({
    node: {
      type: 'CallExpression',
      callee: { type: 'MemberExpression', object, property: { name: method } },
    },
  });
  const own = { type: 'MemberExpression', property: { type: 'PrivateName', id: { name: 'log' } } };
  const ignore = logCalls.value.shouldIgnore.bind(logCalls.value);
  t.ok(ignore(call({ name: 'log' }, 'warn')));
  t.ok(ignore(call(own, 'info')));
  t.ok(ignore(call({ name: 'console' }, 'error')));
  t.notOk(ignore(call({ name: 'log' }, 'append')));
  t.notOk(ignore(call({ name: 'logs' }, 'info')));
  t.notOk(ignore(call({ name: 'stream' }, 'error')));
  t.end();
});

t.test('figures cover the requested files, and list the survivors', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'summary-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const mutant = (id: number, status: string) => ({
    id: String(id),
    status,
    mutatorName: 'BooleanLiteral',
    replacement: 'false',
    location: { start: { line: 1, column: 1 } },
  });
  const states = [
    'Killed',
    'Survived',
    'Killed',
    'Ignored',
    'Timeout',
    'NoCoverage',
    'RuntimeError',
    'Survived',
  ];
  const path = join(dir, 'report.json');
  const file = { source: 'return true;', mutants: states.map((state, id) => mutant(id, state)) };
  writeFileSync(path, JSON.stringify({ files: { 'a.ts': file } }));
  const all = summarize(path, ['a.ts'], 1);
  t.match(all, /^ 50 % +2 +1 +2 +1 {2}together$/m);
  t.equal(all.match(/a\.ts:1:1 (?:Survived|NoCoverage|RuntimeError)/g)?.length, 4);
  t.match(summarize(path, ['a.ts'], 2), /^100 % +2 +1 +0 +0 {2}together$/m);
  t.match(
    summarize(path, ['a.ts'], 2, 1),
    /^ {2}0 % +0 +0 +2 +1 {2}together$/m,
    'another seed has the others',
  );
  t.end();
});

t.test(
  'tests of a mutant have a directory and control groups of their own, and nothing of them stays',
  async (t) => {
    if (process.getuid?.() !== 0) t.bailout('namespaces are made as root: run these tests as root');
    const root = mkdtempSync(join(tmpdir(), 'workplace-'));
    t.teardown(() => rmSync(root, { recursive: true }));
    const stale = join(root, `mutants-${2 ** 22 + 1}`);
    mkdirSync(join(stale, 'm-1/left'), { recursive: true });
    const place = openWorkplace(root);
    t.teardown(() => removePlace(place));
    t.notOk(existsSync(stale), 'what a process left that is gone goes');
    const bench = openBench(place);
    const group = '$(grep -m 1 " cgroup2 " /proc/mounts | cut -d " " -f 2)';
    const signals: string[] = [];
    const onSignal = (name: string): void => void signals.push(name);
    process.on('SIGURG', onSignal);
    t.teardown(() => process.off('SIGURG', onSignal));
    const leave = `kill -URG 0; mkdir ${group}/left ${bench.dir}/left; echo 0 > ${group}/left/cgroup.procs; cat /proc/self/cgroup; exec sleep 600`;
    const [program = '', ...args] = [...bench.command, 'sh', '-c', leave];
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    for await (const bytes of child.stdout) {
      output += bytes;
      if (output.includes('0::')) break;
    }
    t.match(output, /^0::\/left$/m, 'it sees its own groups only');
    t.same(signals, [], 'a signal to its process group is for itself');
    child.kill('SIGKILL');
    await once(child, 'exit');
    await closeBench(bench);
    t.same(readdirSync(place), []);
    removePlace(place);
    t.same(readdirSync(root), []);
    t.notOk(globSync(`/sys/fs/cgroup/**/mutants-${process.pid}`).length > 0, 'no control group either');
  },
);
