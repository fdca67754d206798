// `sandboxd bench` as an operator runs it, with real guests: short, with a URL, beside others, and stopped.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { benchResult } from '../../host-agent/src/commands/bench/result.ts';
import { startDaemon } from '../support/daemon.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const daemon = await startDaemon(t, { flags: ['--ingress-listen', '127.0.0.1:0'] });
const { api } = daemon;
const LEVEL = ['--concurrency', '2', '--rounds', '1', '--data-dir', daemon.directories.dataDir];

function start(...words: readonly string[]) {
  const child = spawn(DAEMON_PROGRAM, ['bench', ...LEVEL, ...words], {
    env: { PATH: process.env.PATH, SANDBOXD_HOST: daemon.url },
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (bytes: Buffer) => {
    stdout += bytes.toString();
  });
  child.stderr.on('data', (bytes: Buffer) => {
    stderr += bytes.toString();
  });
  const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((done) => {
    child.once('close', (code) => done({ code, stdout, stderr }));
  });
  return { child, ended };
}

async function assertNothingLeft(t: Test): Promise<void> {
  t.same(await api.list(), []);
  t.same((await api.ask('listSnapshots')).snapshots, []);
}

t.test('all tiers but those that need something of the operator', async (t) => {
  const dir = t.testdir();
  const [json, page] = [join(dir, 'a.json'), join(dir, 'a.md')];
  const { code, stderr } = await start('--json', json, '--page', page, '--until-full', '1').ended;
  t.equal(code, 0, stderr);
  const result = benchResult.parse(JSON.parse(readFileSync(json, 'utf8')));
  for (const cell of result.tiers) {
    const isGiven = !/image|egress/.test(cell.tier);
    t.equal('ms' in cell, isGiven, JSON.stringify(cell));
    if ('ms' in cell) t.match(cell, { concurrency: 2, operations: 2, failures: { count: 0 } }, cell.tier);
  }
  t.equal(result.tiers.length, 10);
  t.match(result, { idle_copies: { copies: 8 }, until_full: { sandboxes: 1, ended_by: 'limit' } });
  t.match(readFileSync(page, 'utf8'), /\| exec \| 2 \| [\d.]+ /);
  await assertNothingLeft(t);
});

t.test('it is refused beside others, and leaves them alone when it is stopped', async (t) => {
  const { id } = await api.create({ name: 'other' });
  const refused = await start().ended;
  t.equal(refused.code, 1);
  t.match(refused.stderr, /there are sandboxes on this host; .*--beside-others/);
  const { child, ended } = start('--beside-others', '--tier', 'exec', '--tier', 'fork', '--rounds', '999');
  while ((await api.list()).length < 2) await sleep(100);
  child.kill('SIGINT');
  t.equal((await ended).code, 130);
  t.match(await api.list(), [{ id }]);
  await api.delete(id);
  await assertNothingLeft(t);
});
