// The command over a restart of the daemon, with a real guest: what follows goes on, what was running is said to be lost.

import { type ChildProcess, spawn } from 'node:child_process';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { resolve } from 'node:path';
import t from 'tap';
import { leftovers, makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

t.setTimeout(scaled(300_000));
const SANDBOX = resolve(import.meta.dirname, '../../dist/sandbox');
/** Each line once, also when nobody listens meanwhile. */
const TICKS = 'n=0; while :; do n=$((n + 1)); echo tick $n; sleep 0.3; done';

class Verb {
  readonly child: ChildProcess;
  stdout = '';
  stderr = '';
  readonly ended: Promise<number | null>;

  constructor(url: string, words: readonly string[]) {
    this.child = spawn(SANDBOX, words, { env: { ...process.env, SANDBOXD_HOST: url } });
    this.child.stdout?.on('data', (bytes: Buffer) => {
      this.stdout += bytes.toString();
    });
    this.child.stderr?.on('data', (bytes: Buffer) => {
      this.stderr += bytes.toString();
    });
    this.ended = new Promise((done) => this.child.once('close', done));
  }

  get ticks(): number[] {
    return [...this.stdout.matchAll(/tick (\d+)\n/g)].map(([, number]) => Number(number));
  }
}

async function findPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

t.test('what follows goes on without a gap, and what ran is ended', async (t) => {
  const directories = await makeDirectories();
  const options = {
    onExit: 'keep',
    flags: ['--listen', `127.0.0.1:${await findPort()}`],
  } as const;
  let daemon = await spawnDaemon(directories, options);
  const { url } = daemon;
  const start = (...words: string[]) => new Verb(url, words);
  const finish = async (verb: Verb) => {
    t.equal(await verb.ended, 0, verb.stderr);
    return verb.stdout.trim();
  };
  const id = await finish(start('run', '-d', 'base', 'sh', '-c', TICKS));
  const followers = [
    start('service', 'logs', '-f', id),
    start('logs', '-f', '--all', '--source', 'service', id),
  ];
  const events = start('events');
  for (const [signal, code, said] of [
    ['SIGKILL', 1, /^sandbox: [^\n]*; sh was running, and is ended with it \(request req_\w+\)\n$/],
    ['SIGTERM', 126, /^sandbox: the daemon stopped while the command ran\n$/],
  ] as const) {
    const lost = start('exec', id, 'sh', '-c', 'echo begun; sleep 600');
    await until(() => lost.stdout === 'begun\n', 'the command');
    for (const each of followers) await until(() => each.ticks.length > 3, 'output');
    const ending = daemon.end(signal);
    // The second one does not wait for commands.
    if (signal === 'SIGTERM') setTimeout(() => process.kill(daemon.pid, signal), 500);
    await ending;
    t.equal(await lost.ended, code);
    t.match(lost.stderr, said);
    const before = followers.map(({ ticks }) => ticks.length);
    daemon = await spawnDaemon(directories, options);
    t.equal(daemon.url, url);
    for (const [at, each] of followers.entries())
      await until(() => each.ticks.length > (before[at] ?? 0) + 3, `output after ${signal}: ${each.stderr}`);
  }
  for (const { ticks } of followers)
    t.same(
      ticks,
      ticks.map((_, at) => at + 1),
      'each line once, in order',
    );
  await finish(start('rm', id));
  await until(() => events.stdout.includes(`deleted          ${id}`), 'the event, after two restarts');
  t.equal(await followers[0]?.ended, 1, 'the output of a service ends with its sandbox');
  t.match(followers[0]?.stderr, 'does not exist');
  for (const each of [...followers, events]) each.child.kill('SIGINT');
  await Promise.all([...followers, events].map(({ ended }) => ended));
  await daemon.end();
  const left = await leftovers(directories);
  await removeDirectories(directories);
  t.same(left, []);
});
