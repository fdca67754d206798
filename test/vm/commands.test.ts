// Commands that do not depend on their client, on real guests: clients come and go, daemons are killed, guests forked.
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@sandboxd/client';
import t, { type Test } from 'tap';
import { Running, runCommand } from '../support/command.ts';
import {
  type Command,
  Commands,
  eachExactlyOnce,
  type Line,
  readExecLog,
  seqsOf,
  textOf,
  upTo,
} from '../support/commands.ts';
import {
  type DaemonOptions,
  type Directories,
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
  startDaemon,
} from '../support/daemon.ts';
import { attachTo } from '../support/interactive.ts';
import { scaled } from '../support/time-scale.ts';

const IS_SOAK = process.env.SOAK === '1';
const LINES = IS_SOAK ? 600 : 250;

t.setTimeout(scaled(600_000));

t.test('with one daemon', async (t) => {
  const { api } = await startDaemon(t);
  const { id } = await api.create({ memory_mib: 256 });
  const commands = new Commands(api, id);

  await t.test('a detached command is started, listed, waited for, and leaves its result', async (t) => {
    const command = await commands.sh('echo out; echo err >&2; sleep 1; exit 7', { env: { A: '1' } });
    t.match(command, { id: /^cmd_[0-9a-v]{13}$/, state: 'running', detached: true });
    t.ok(command.pid);
    t.match(await commands.list(), [{ id: command.id, state: 'running' }]);
    const ended = await commands.wait(command);
    t.match(ended, { state: 'exited', result: { exit_code: 7, usage: {} } });
    t.same(await commands.get(command), ended);
    const frames = await fetch(`${api.url}${commands.path(command.id, '/output')}`);
    t.match(Buffer.from(await frames.arrayBuffer()).toString('latin1'), /out\n/);
    const lines = await commands.lines(command, 'follow=1');
    t.equal(textOf(lines).length, 'out\nerr\n'.length);
    t.match(lines.at(-1), { state: 'exited', result: { exit_code: 7 } });
    const quick = `${commands.path(command.id, '/wait')}?timeout_s=1`;
    t.match(await api.call('GET', quick), { state: 'exited' });
    const events = await fetch(`${api.url}${commands.path(command.id, '/output')}`, {
      headers: { accept: 'text/event-stream', 'last-event-id': '0' },
    });
    const text = await events.text();
    t.notMatch(text, /"seq":0,"stream"/, 'what came before the event is not repeated');
    t.match(text, /event: end\n/);
  });

  await t.test('its output is read in parts without a gap or a repetition, also its terminal', async (t) => {
    const script = 'i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); done';
    const command = await commands.sh(script, { output_buffer_bytes: 1_000_000 });
    const first = await commands.lines(command, 'from=0&follow=1', (lines) => lines.length >= 3);
    const next = (seqsOf(first).at(-1) ?? 0) + 1;
    const rest = await commands.lines(command, `from=${next}&follow=1`);
    const all = [...seqsOf(first), ...seqsOf(rest)];
    t.same(all, upTo(all.length));
    t.equal(
      textOf(first) + textOf(rest),
      upTo(400)
        .map((n) => `line ${n}\n`)
        .join(''),
    );
  });

  await t.test('output beyond its buffer is dropped, and counted', async (t) => {
    const command = await commands.sh('head -c 2000000 /dev/zero | tr "\\0" x', {
      output_buffer_bytes: 100_000,
    });
    await commands.wait(command);
    const lines = await commands.lines(command, 'from=0');
    const dropped = lines.reduce((sum, { dropped_bytes = 0 }) => sum + dropped_bytes, 0);
    t.equal(dropped + textOf(lines).length, 2_000_000);
    t.ok(textOf(lines).length > 50_000);
  });

  await t.test('input is written by later requests, and closed', async (t) => {
    const command = await commands.sh('cat', { stdin: true });
    t.equal(await commands.stdin(command, 'one '), 200);
    t.equal(await commands.stdin(command, 'two\n', true), 200);
    t.match(await commands.wait(command), { result: { exit_code: 0 } });
    t.equal(textOf(await commands.lines(command, '')), 'one two\n');
    t.equal(await commands.stdin(command, 'late'), 409);
  });

  for (const transport of ['hijack', 'websocket'] as const)
    await t.test(`clients attach, leave and come back over ${transport}; one writes`, async (t) => {
      const command = await commands.sh('while read -r line; do echo got $line; done', { stdin: true });
      const path = commands.path(command.id, '/attach');
      const first = await attachTo(transport, api.url, path);
      await first.stdin('a\n');
      await first.until(() => first.text.includes('got a\n'), 'its output');
      const reader = await attachTo(transport, api.url, path, 'input=none');
      await reader.until(() => reader.text.includes('got a\n'), 'the stored output');
      await t.rejects(attachTo(transport, api.url, path), /409|another client/);
      const from = first.position;
      first.destroy();
      const taker = await attachTo(transport, api.url, path, `from=${from}&input=take`);
      await taker.stdin('b\n');
      await taker.until(() => taker.text.includes('got b\n'), 'its output');
      t.equal(taker.text, 'got b\n', 'from where the first one was');
      await reader.until(() => reader.text === 'got a\ngot b\n', 'both');
      await taker.closeStdin();
      t.match(await taker.ended(), { exit_code: 0 });
      t.match(await reader.ended(), { exit_code: 0 });
      t.match(await commands.get(command), { state: 'exited' });
    });

  await t.test('a terminal is left and taken up again', async (t) => {
    const command = await commands.sh(
      'trap "stty size" WINCH; while :; do read -r line && echo got $line; done',
      {
        tty: { cols: 80, rows: 24 },
      },
    );
    const path = commands.path(command.id, '/attach');
    const first = await attachTo('hijack', api.url, path);
    await first.stdin('hello\n');
    await first.until(() => first.text.includes('got hello'), 'its answer');
    first.destroy();
    t.match(await commands.get(command), { state: 'running', tty: { cols: 80, rows: 24 } });
    const second = await attachTo('websocket', api.url, path, 'input=take');
    await second.until(() => second.text.includes('got hello'), 'the screen so far');
    await second.resize(80, 24);
    await second.until(() => second.text.includes('24 80'), 'it to be drawn again');
    await commands.post(command, 'resize', { cols: 100, rows: 40 });
    await second.until(() => second.text.includes('40 100'), 'another size');
    await second.signal('SIGKILL');
    t.match(await second.ended(), { signal: 'SIGKILL' });
  });

  await t.test('a command is signalled, and ended with all that it started', async (t) => {
    const polite = await commands.sh('trap "exit 5" USR1; echo ready; while :; do sleep 0.1; done');
    await commands.lines(polite, 'follow=1', (lines) => lines.length > 0);
    await commands.post(polite, 'signal', { signal: 'SIGUSR1' });
    t.match(await commands.wait(polite), { result: { exit_code: 5 } });
    const tree = await commands.sh(
      'trap "" TERM; setsid sh -c "trap \'\' TERM; sleep 4321" & echo ready; while :; do sleep 0.1; done',
    );
    await commands.lines(tree, 'follow=1', (lines) => lines.length > 0);
    t.match(await commands.kill(tree, 1), { state: 'exited', result: { signal: 'SIGKILL' } });
    t.equal(await api.sh(id, 'pgrep -fc "^sleep 4321" || true'), '0');
    t.match(await commands.kill(tree), { state: 'exited' }, 'once more');
    await t.rejects(commands.post(tree, 'signal', { signal: 'SIGINT' }), { message: /^409/ });
  });

  await t.test('attached commands are listed and signalled, but are their client’s', async (t) => {
    const running = api.exec(id, ['sleep', '1234']);
    const find = async () => (await commands.list()).find(({ cmd }) => cmd[1] === '1234');
    while ((await find())?.pid === undefined) await sleep(50);
    const command = (await find()) as Command;
    t.match(command, { detached: false, state: 'running' });
    await t.rejects(api.call('GET', commands.path(command.id, '/output')), { message: /^409/ });
    await commands.post(command, 'signal', { signal: 'SIGTERM' });
    t.match((await running).result, { signal: 'SIGTERM' });
    t.match(await commands.get(command), { state: 'exited', result: { signal: 'SIGTERM' } });
  });

  await t.test('what cannot start, and what does not exist', async (t) => {
    const body = { cmd: ['nosuch'], detach: true };
    const failed = (await api.call('POST', `/sandboxes/${id}/exec`, body)) as Command;
    t.match(failed, { state: 'exited', result: { exit_code: -1, error: /not found/ } });
    await t.rejects(commands.get({ id: 'cmd_0123456789abc' }), { message: /^404/ });
    await t.rejects(commands.get({ id: 'nonsense' }), { message: /^400/ });
  });

  await t.test('of many, each has its own output and its result exactly once', async (t) => {
    await eachExactlyOnce(t, api, id, IS_SOAK ? 60 : 20);
  });

  await t.test('a fork has the commands of its source, each its own', async (t) => {
    const command = await commands.sh('read -r line; echo $line; hostname', { stdin: true });
    const snapshot = (await api.call('POST', `/sandboxes/${id}/snapshot`, {})) as { id: string };
    const { sandboxes } = (await api.call('POST', `/snapshots/${snapshot.id}/fork?count=2`, {})) as {
      sandboxes: { id: string }[];
    };
    const copies = sandboxes.map((copy) => ({ id: copy.id, commands: new Commands(api, copy.id) }));
    for (const [n, copy] of copies.entries()) {
      t.match(await copy.commands.get(command), { state: 'running', pid: command.pid });
      t.equal(await copy.commands.stdin(command, `copy ${n}\n`), 200);
    }
    t.match(await commands.get(command), { state: 'running' });
    await commands.stdin(command, 'source\n');
    const results = [{ id, commands }, ...copies].map(async (each) => {
      t.match(await each.commands.wait(command), { result: { exit_code: 0 } });
      return textOf(await each.commands.lines(command, ''));
    });
    const [source = '', ...forks] = await Promise.all(results);
    t.match(source, /^source\n/);
    for (const [n, text] of forks.entries()) t.match(text, new RegExp(`^copy ${n}\n`));
    for (const copy of copies) await api.call('DELETE', `/sandboxes/${copy.id}`);
    await api.call('DELETE', `/snapshots/${snapshot.id}`);
  });

  await t.test('the library and the command line', async (t) => {
    const sandbox = new Client({ host: api.url }).sandboxes.get(id);
    const job = await sandbox.commands.start(['cat'], { stdin: true });
    await job.write('from the library\n');
    const attachment = await job.attach();
    await attachment.write('attached\n');
    let text = '';
    for await (const chunk of attachment) {
      text += chunk.text;
      if (text.includes('attached\n')) break;
    }
    t.equal(text, 'from the library\nattached\n');
    await job.write('', { close: true });
    t.match(await job.wait(), { exit_code: 0 });
    const chunks = [];
    for await (const chunk of job.output({ from: 2 })) chunks.push(chunk);
    t.same(chunks, []);
    const env = { SANDBOXD_HOST: api.url };
    const started = await runCommand(['exec', '-d', id, 'sh', '-c', 'echo hello; exit 3'], env);
    t.match(started, { code: 0, stdout: /^cmd_\w+\n$/ }, started.stderr);
    const cid = started.stdout.trim();
    t.match(await runCommand(['wait', id, cid], env), { code: 3 });
    t.match(await runCommand(['attach', id, cid], env), { code: 3, stdout: 'hello\n' });
    const listed = await runCommand(['commands', id], env);
    t.match(listed.stdout, new RegExp(`${cid} +exit 3 `));
    const sleeping = (await runCommand(['exec', '-d', id, 'sleep', '1000'], env)).stdout.trim();
    t.match(await runCommand(['kill', id, sleeping], env), { code: 0, stdout: `${sleeping}\n` });
    t.match(await runCommand(['wait', id, sleeping], env), { code: 128 + 15 });
    const missing = await runCommand(['exec', '-d', id, 'nosuch'], env);
    t.match(missing, { code: 127, stderr: /not found/ });
  });

  await t.test('its command line, output and end are in the log', async (t) => {
    const command = await commands.sh('echo for the log; exit 4');
    await commands.wait(command);
    for (;;) {
      const page = (await api.call('GET', `/sandboxes/${id}/logs?source=exec`)) as {
        records: { text: string }[];
      };
      const text = page.records.map((record) => record.text).join('|');
      if (text.includes(`exit 4 of ${command.id}`)) {
        t.match(text, `exec ${command.id}: sh -c echo for the log; exit 4`);
        t.match(text, '|for the log\n|');
        break;
      }
      await sleep(100);
    }
  });
});

async function ownDirectories(t: Test): Promise<Directories> {
  const directories = await makeDirectories();
  t.teardown(async () => {
    const left = await leftovers(directories);
    await removeDirectories(directories);
    if (left.length > 0) throw new Error(`left: ${left.join(', ')}`);
  });
  return directories;
}

const KEEP: DaemonOptions = { onExit: 'keep' };

t.test('commands outlive their daemon, which is killed while clients read', async (t) => {
  const directories = await ownDirectories(t);
  let daemon = await spawnDaemon(directories, KEEP);
  const { id } = await daemon.api.create({ memory_mib: 256 });
  const script = `i=0; while [ $i -lt ${LINES} ]; do echo line $i; i=$((i+1)); sleep 0.02; done; exit 3`;
  let commands = new Commands(daemon.api, id);
  const options = { output_buffer_bytes: 1_000_000 };
  const counting = await commands.sh(script, options);
  const short = await commands.sh('sleep 1; echo done; exit 6', options);
  const attached = daemon.api.exec(id, ['sleep', '987']).catch(() => undefined);
  const parts: Line[] = [];
  let from = 0;
  const signals = IS_SOAK ? (['SIGKILL', 'SIGTERM', 'SIGKILL'] as const) : (['SIGKILL', 'SIGTERM'] as const);
  for (const signal of signals) {
    const isEnough = (lines: readonly Line[]): boolean => seqsOf(lines).length >= 20;
    const part = await commands.lines(counting, `from=${from}&follow=1`, isEnough);
    parts.push(...part);
    from = (seqsOf(part).at(-1) ?? from - 1) + 1;
    await daemon.end(signal);
    daemon = await spawnDaemon(directories, KEEP);
    commands = new Commands(daemon.api, id);
  }
  await attached;
  t.match(await commands.wait(short), { state: 'exited', result: { exit_code: 6, usage: {} } });
  t.equal(textOf(await commands.lines(short, '')), 'done\n');
  parts.push(...(await commands.lines(counting, `from=${from}&follow=1`)));
  const seqs = seqsOf(parts);
  t.same(seqs, upTo(seqs.length), 'each record exactly once');
  t.equal(
    textOf(parts),
    upTo(LINES)
      .map((n) => `line ${n}\n`)
      .join(''),
  );
  t.match(await commands.get(counting), { result: { exit_code: 3 } });
  const logged = await readExecLog(daemon.api, id, `exit 3 of ${counting.id}`);
  const numbers = [...logged.stdout.matchAll(/^line (\d+)$/gm)].map(([, n]) => Number(n));
  t.same(numbers, upTo(LINES), 'each line is in the log once, also those written without a daemon');
  const lost = (await commands.list()).find(({ cmd }) => cmd[1] === '987');
  t.match(lost, { state: 'exited', detached: false, result: { signal: 'SIGKILL' } });
  t.equal(await daemon.end(), 0);
  const last = await spawnDaemon(directories);
  t.equal(await last.end(), 0);
});

t.test('many commands, whose daemon and clients are killed', async (t) => {
  const directories = await ownDirectories(t);
  let daemon = await spawnDaemon(directories, KEEP);
  const { id } = await daemon.api.create({ memory_mib: 256 });
  let tens = 0;
  await eachExactlyOnce(t, daemon.api, id, IS_SOAK ? 60 : 30, async ([command]) => {
    const client = new Running(['attach', id, command?.id ?? ''], { SANDBOXD_HOST: daemon.url });
    if (++tens % 3 === 0) {
      await daemon.end('SIGKILL');
      daemon = await spawnDaemon(directories, KEEP);
    }
    client.child.kill('SIGKILL');
    await client.ended;
    return daemon.api;
  });
  t.equal(await daemon.end(), 0);
  const last = await spawnDaemon(directories);
  t.equal(await last.end(), 0);
});
