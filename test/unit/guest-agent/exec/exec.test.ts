// The agent's exec, on real processes of this machine over a real socket.
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { FLOW } from '@sandboxd/proto';
import t from 'tap';
import { run, sendInput, startLocalAgent } from '../support/local-agent.ts';
import { openDescriptors } from '../support/open-descriptors.ts';

if (process.getuid?.() !== 0) t.bailout('the agent runs as root: run these tests as root');

const isAlive = (pid: number): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
};

t.test('a command', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const sh = (script: string, options = {}) => run(channel, ['sh', '-c', script], options).done;

  await t.test('has its output, exit code, usage and process id', async (t) => {
    const { started, done } = run(channel, ['sh', '-c', 'echo out; echo err >&2; exit 7']);
    const { exec, out, err } = await done;
    t.match({ out, err }, { out: 'out\n', err: 'err\n' });
    t.match(exec, { exitCode: 7, signal: '', timedOut: false, oomKilled: false, error: '' });
    t.ok(exec.usage && exec.durationUs > 0 && (await started) > 1);
  });

  await t.test('leads a session and process group of its own, with few descriptors', async (t) => {
    const { out } = await sh('ps -o pid=,pgid=,sid= -p $$; ls /proc/self/fd | wc -l');
    const [ids = '', descriptors] = out.trim().split('\n');
    t.equal(new Set(ids.trim().split(/\s+/)).size, 1);
    t.equal(Number(descriptors), 4, 'three and the directory that ls reads');
  });

  await t.test('has default signals, whatever the agent ignores or was started with', async (t) => {
    // An agent in a separate process: this process handles signals that Node would ignore. 40 is a real-time signal.
    const program = fileURLToPath(new URL('../support/agent-run.ts', import.meta.url));
    const status = ['grep', '-E', 'SigIgn|SigBlk', '/proc/self/status'];
    const script = `trap '' USR1 TTOU XFSZ; exec "$@"`;
    const agent = [process.execPath, program];
    const change = ['sh', '-c', script, 'sh', 'env', '--ignore-signal=40', '--block-signal=USR2'];
    const { out } = await run(channel, [...change, ...agent, ...status]).done;
    const none = '0000000000000000';
    t.equal(out, `SigBlk:\t${none}\nSigIgn:\t${none}\n`);
  });

  await t.test('finds its program, directory and environment, or says what is wrong', async (t) => {
    t.equal((await run(channel, ['pwd'], { cwd: '/tmp' }).done).out, '/tmp\n');
    t.match(
      (await run(channel, ['env'], { env: ['A=1'] }).done).out,
      /^A=1\nPATH=\/usr\/local.*\nHOME=\/root\nUSER=root\nLOGNAME=root\n$/,
    );
    const failures: [string[], object, RegExp][] = [
      [['nope'], {}, /^command not found: "nope" is not in PATH/],
      [['/nope'], {}, /^command not found: "\/nope" does not exist/],
      [['/etc/passwd/nope'], {}, /^command not found: "\/etc\/passwd\/nope" does not exist/],
      [['/tmp'], {}, /^"\/tmp" is not executable: it is a directory/],
      [['/etc/passwd'], {}, /not executable: permission denied/],
      [[], {}, /^cmd is empty/],
      [['a\0b'], {}, /zero bytes/],
      [['pwd'], { cwd: '/nope' }, /^working directory "\/nope" does not exist/],
      [['pwd'], { cwd: '/etc/passwd' }, /is not a directory/],
      [['pwd'], { user: 'nobody-here' }, /^there is no user "nobody-here"/],
      [['true', 'x'.repeat(200_000)], {}, /^argument list too long/],
    ];
    for (const [cmd, options, error] of failures) {
      const { exec } = await run(channel, cmd, options).done;
      t.match(exec, { exitCode: -1, error }, JSON.stringify(cmd).slice(0, 60));
      t.notOk(exec.usage);
      t.ok(exec.durationUs < 60_000_000);
    }
  });

  await t.test('says what a program lacks that is there', async (t) => {
    const dir = t.testdir();
    const put = (name: string, content: string | Buffer): void =>
      writeFileSync(join(dir, name), content, { mode: 0o755 });
    const program = readFileSync('/bin/true');
    const named = program.indexOf('/lib64/ld-linux');
    put('python-tool', '#!/opt/nope/python3 -u\n');
    put('windows', '#!/bin/sh\r\necho never\r\n');
    put(
      'musl',
      Buffer.concat([program.subarray(0, named), Buffer.from('/lib/ld-musl-'), program.subarray(named + 13)]),
    );
    put(
      'other-machine',
      Buffer.concat([program.subarray(0, 18), Buffer.from([183, 0]), program.subarray(20)]),
    );
    put('cut', program.subarray(0, 10));
    put('data', Buffer.from('x\0y\n'));
    put('plain', 'echo "no first line: $1"\n');
    const env = [`PATH=${dir}:/usr/bin:/bin`];
    const failures: [string, RegExp][] = [
      [
        'python-tool',
        /^"python-tool" cannot be executed: \/.*\/python-tool needs "\/opt\/nope\/python3", which/,
      ],
      ['windows', /needs "\/bin\/sh\\r", which does not exist: its lines end as those of Windows/],
      ['musl', /needs "\/lib\/ld-musl-/],
      [
        'other-machine',
        /^"other-machine" is not executable: exec format error, it is a program for arm64, and this/,
      ],
      ['cut', /exec format error, it is damaged/],
      ['data', /exec format error, it is neither a program nor a script/],
    ];
    for (const [name, error] of failures)
      for (const cmd of [name, join(dir, name)]) {
        const { exec, out } = await run(channel, [cmd], { env }).done;
        t.match(exec, { exitCode: -1, error: cmd === name ? error : /./ }, `${cmd}: ${exec.error}`);
        t.notMatch(exec.error, /not found/, 'which is what a missing program has');
        t.equal(out, '');
      }
    t.equal((await run(channel, ['plain', 'but run'], { env }).done).out, 'no first line: but run\n');
  });

  await t.test('may open its output again once it is another user, too', async (t) => {
    const { out } = await sh(
      `setpriv --reuid=1234 --clear-groups sh -c 'echo out > /dev/stdout; echo err > /dev/stderr' 2>&1`,
    );
    t.equal(out, 'out\nerr\n');
  });

  await t.test('runs as another user, who may open its output again', async (t) => {
    const { out } = await run(channel, ['sh', '-c', 'id -u; id -g; id -G; echo again > /dev/stdout'], {
      user: '1234:77',
    }).done;
    t.equal(out, '1234\n77\n77\nagain\n');
  });

  await t.test('is signalled as a group; unknown signals are ignored', async (t) => {
    const { stream, started, done } = run(channel, ['sh', '-c', 'sleep 60 & wait']);
    await started;
    stream.signal('SIGNOPE');
    stream.signal('SIGTERM');
    t.match((await done).exec, { exitCode: -1, signal: 'SIGTERM' });
  });

  await t.test('is killed at its time limit', async (t) => {
    const { exec } = await sh('sleep 60 & sleep 60', { timeoutMs: 200 });
    t.match(exec, { exitCode: -1, signal: 'SIGKILL', timedOut: true });
    t.ok(exec.durationUs > 150_000 && exec.durationUs < 3_000_000);
  });

  await t.test('leaves what it started alone when it ended before its time limit', async (t) => {
    // The child keeps the output open, so the result is still pending at the timeout.
    const { exec, out } = await sh('sleep 30 & echo $!', { timeoutMs: 1000 });
    t.match(exec, { exitCode: 0, signal: '', timedOut: false });
    const pid = Number(out);
    t.ok(isAlive(pid));
    process.kill(pid, 'SIGKILL');
  });

  await t.test('is killed when cancelled, whether or not anyone reads its output', async (t) => {
    const { stream, started, done } = run(channel, ['cat', '/dev/zero'], { isReading: false });
    await started;
    await sleep(100);
    stream.cancel();
    t.match((await done).exec, { signal: 'SIGKILL' });
  });

  await t.test('gets its input whole, and the end of it', async (t) => {
    const bytes = randomBytes(5_000_000);
    const { stream, done } = run(channel, ['sha256sum'], { stdin: true });
    sendInput(stream, bytes);
    t.equal((await done).out.split(' ')[0], createHash('sha256').update(bytes).digest('hex'));
    const early = run(channel, ['head', '-c', '3'], { stdin: true });
    sendInput(early.stream, bytes);
    t.equal((await early.done).out.length > 0, true, 'unread input is discarded');
  });

  await t.test('without an input throws away what is sent to it', async (t) => {
    const { stream, done } = run(channel, ['sleep', '0.3']);
    sendInput(stream, randomBytes(3_000_000));
    t.match((await done).exec, { exitCode: 0 });
  });

  await t.test('blocks without a reader, and loses no output', async (t) => {
    const slow = run(channel, ['sh', '-c', 'seq 1 200000'], { isReading: false });
    await slow.started;
    t.equal((await sh('echo quick')).out, 'quick\n', 'others go on');
    slow.resume();
    const { out } = await slow.done;
    t.equal(out, Array.from({ length: 200_000 }, (_, n) => `${n + 1}\n`).join(''));
  });

  await t.test(
    'may leave a background process, which delays the result by two seconds and lives on',
    async (t) => {
      const startedMs = performance.now();
      const { exec, out } = await sh('sleep 30 & echo $!');
      const elapsedMs = performance.now() - startedMs;
      t.equal(exec.exitCode, 0);
      t.ok(elapsedMs > 1900 && elapsedMs < 4000, `${elapsedMs} ms`);
      t.ok(exec.durationUs < 1_000_000, 'the duration is the command’s own');
      t.ok(isAlive(Number(out)));
      process.kill(Number(out));
    },
  );

  await t.test('has a terminal when asked for', async (t) => {
    const tty = { cols: 91, rows: 31 };
    const { stream, started, done } = run(
      channel,
      ['sh', '-c', 'stty size; tty; read line; echo "<$line>"; stty size; cat'],
      {
        stdin: true,
        tty,
      },
    );
    await started;
    await sleep(300);
    stream.resize({ cols: 40, rows: 20 });
    sendInput(stream, Buffer.from('word\n'));
    const { exec, out, err } = await done;
    t.match(out, /31 91\r\n\/dev\/pts\/\d+\r\n[\s\S]*<word>\r\n20 40\r\n/);
    t.equal(err, '');
    t.equal(exec.exitCode, 0, 'the end of input ended cat');
    const many = await run(channel, ['seq', '1', '20000'], { tty }).done;
    t.ok(many.out.endsWith('\r\n20000\r\n'), 'output after the exit is drained');
    const leaving = 'exec <&- >&- 2>&-; sleep 0.3; echo again > /dev/tty; exit 5';
    const closed = await run(channel, ['sh', '-c', leaving], { tty }).done;
    t.match(closed.exec, { exitCode: 5, signal: '' }, 'closing it is no end of the command');
    t.equal(closed.out, 'again\r\n', 'nor of its output');
    // Only the linger timeout, 2 s, could still delay it.
    t.ok(closed.exec.agentUs - closed.exec.durationUs < 1_900_000, 'its exit is');
  });

  await t.test('has a terminal that is its user’s, of any size that there is', async (t) => {
    const tty = { cols: 80, rows: 24 };
    const again = run(channel, ['sh', '-c', 'echo again > $(tty)'], { user: '1234:77', tty });
    t.match(await again.done, { out: 'again\r\n', exec: { exitCode: 0 } });
    const wide = run(channel, ['sh', '-c', 'echo ready; read line; stty size'], { tty, stdin: true });
    await wide.output(/ready/);
    wide.stream.resize({ cols: 70_000, rows: 3 });
    sendInput(wide.stream, Buffer.from('\n'));
    t.match((await wide.done).out, /\n3 65535\r\n$/);
  });

  await t.test('whose terminal passes every byte on gets none for the end of its input', async (t) => {
    const raw = 'stty raw -echo min 0 time 10; echo ready; od -An -tx1';
    const { stream, output, done } = run(channel, ['sh', '-c', raw], {
      tty: { cols: 80, rows: 24 },
      stdin: true,
    });
    await output(/ready/);
    sendInput(stream, Buffer.from('ab'));
    t.match((await done).out, /^ready\s+61 62\s*$/);
  });

  await t.test('runs beside two hundred others', async (t) => {
    const before = openDescriptors();
    const all = await Promise.all(
      Array.from({ length: 200 }, (_, i) => sh(`echo ${i}; sleep 0.2; echo end ${i}`)),
    );
    t.ok(all.every(({ out }, i) => out === `${i}\nend ${i}\n`));
    t.equal(openDescriptors(), before, 'no descriptor is left');
  });

  t.equal(agent.cgroups.inUse, 0, 'no cgroup is left, of commands that could not start neither');
  t.strictSame(agent.faults, []);
});

t.test('a host that comes back', async (t) => {
  const agent = startLocalAgent(t);
  const first = await agent.connect('one');
  const lost = run(first, ['sleep', '60']);
  lost.done.catch(() => {});
  const lostPid = await lost.started;

  const second = await agent.connect('one');
  await sleep(200);
  t.notOk(isAlive(lostPid), 'the same host again: what its clients ran is ended');

  const kept = run(second, ['sh', '-c', 'while :; do echo x; sleep 0.01; done']);
  kept.done.catch(() => {});
  const keptPid = await kept.started;
  const third = await agent.connect('two');
  await sleep(500);
  t.ok(isAlive(keptPid), 'a copy of the guest: what ran goes on, its output thrown away');
  process.kill(keptPid, 'SIGKILL');
  t.equal((await run(third, ['echo', 'hi']).done).out, 'hi\n');
  t.strictSame(agent.faults, []);
});

t.test('a stream that ends input before the command exists', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const { stream, done } = run(channel, ['cat'], { stdin: true });
  stream.end(FLOW.in);
  t.match((await done).exec, { exitCode: 0 });
});
