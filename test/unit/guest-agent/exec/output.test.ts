// Long outputs, over links that read pipes natively and over others: on real pipes over a real socket.
import '../support/addon-dir.ts';
import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { DEFAULT_WINDOW_BYTES, FRAME_CREDIT_BYTES } from '@sandboxd/proto';
import t from 'tap';
import { addon } from '../../../../guest-agent/src/native/addon.ts';
import { run, sendInput, startLocalAgent } from '../support/local-agent.ts';

const MIB = 2 ** 20;
const sha = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

let nativeWrites = 0;
const { writeFrom } = addon;
addon.writeFrom = (...all) => {
  nativeWrites += 1;
  return writeFrom(...all);
};
t.teardown(() => {
  addon.writeFrom = writeFrom;
});

for (const isEmulated of [false, true]) {
  const reader = isEmulated ? 'the addon reads' : 'JavaScript reads';
  t.test(`${reader}: a long output, to its end and exit`, async (t) => {
    nativeWrites = 0;
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    for (const script of ['head -c 30000000 /dev/zero', 'seq 1 2000000', 'yes abcdefg | head -c 20000003']) {
      const direct = await run(channel, ['sh', '-c', `${script} | sha256sum`]).done;
      for (const copy of [' | tee /dev/stderr', '']) {
        const { exec, out } = await run(channel, ['sh', '-c', `${script}${copy}; exit 4`]).done;
        t.equal(exec.exitCode, 4);
        t.equal(sha(Buffer.from(out)), direct.out.slice(0, 64), `${script}${copy}`);
      }
    }
    t.equal(nativeWrites > 0, isEmulated, `${nativeWrites} native writes`);
    t.same(agent.faults, []);
  });

  t.test(`${reader}: input that arrives meanwhile: nothing is lost either way`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    for (let round = 0; round < 8; round++) {
      const bytes = Buffer.alloc(3 * MIB + round * 4099, `${round}`);
      bytes.fill('z', 1_000_000, 1_400_000);
      const { stream, done } = run(channel, ['cat'], { stdin: true });
      sendInput(stream, bytes);
      const { exec, out } = await done;
      t.equal(exec.exitCode, 0);
      t.ok(out === bytes.toString(), `round ${round}: ${out.length} of ${bytes.length}`);
    }
    t.same(agent.faults, []);
  });

  t.test(`${reader}: many at once, with commands that come and go`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const long = Array.from({ length: 4 }, (_, n) => {
      const source = randomBytes(64).toString('hex');
      return { source, n, ...run(channel, ['sh', '-c', `yes ${source} | head -c ${10_000_000 + n}`]) };
    });
    for (let n = 0; n < 40; n++) t.equal((await run(channel, ['echo', `${n}`]).done).out, `${n}\n`);
    for (const { source, n, done } of long) {
      const { out } = await done;
      t.ok(out === `${source}\n`.repeat(100_000).slice(0, 10_000_000 + n), `${out.length} bytes`);
    }
    t.same(agent.faults, []);
  });

  t.test(`${reader}: a signal, a cancel, a time limit and a lost host end it`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const flood = (): ReturnType<typeof run> => run(channel, ['sh', '-c', 'exec cat /dev/zero']);
    for (const end of ['signal', 'cancel'] as const) {
      const running = flood();
      await running.started;
      await sleep(100);
      if (end === 'signal') running.stream.signal('SIGTERM');
      else running.stream.cancel();
      const { exec } = await running.done;
      t.match(exec, { exitCode: -1, signal: end === 'signal' ? 'SIGTERM' : 'SIGKILL' }, end);
    }
    const limited = run(channel, ['cat', '/dev/zero'], { timeoutMs: 200 });
    t.match((await limited.done).exec, { signal: 'SIGKILL', timedOut: true });
    const lost = flood();
    const failed = t.rejects(lost.done, /lost/);
    await lost.started;
    await sleep(100);
    channel.close(new Error('gone'));
    await failed;
    const again = await agent.connect();
    t.equal((await run(again, ['echo', 'here']).done).out, 'here\n');
    t.same(agent.faults, []);
  });

  t.test(`${reader}: a background process that keeps the pipe delays the result a while only`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const { exec, out } = await run(channel, [
      'sh',
      '-c',
      'head -c 5000000 /dev/zero; (sleep 4; echo never) & exit 3',
    ]).done;
    t.equal(exec.exitCode, 3);
    t.equal(out.length, 5_000_000);
  });

  t.test(
    `${reader}: the end of a command that comes together with credit for its output is seen`,
    async (t) => {
      const agent = startLocalAgent(t, { isEmulated });
      const channel = await agent.connect();
      const total = DEFAULT_WINDOW_BYTES - 12 * FRAME_CREDIT_BYTES + 60_000;
      const script = `exec 2>&1; head -c ${total} /dev/zero; sleep 0.3`;
      const { stream, started, done } = run(channel, ['sh', '-c', script], { isReading: false });
      let heldBytes = 0;
      const { data } = stream.handlers;
      stream.handlers.data = (flow, chunk) => {
        data?.(flow, chunk);
        heldBytes += chunk.length;
      };
      await started;
      // Everything that the credit allows.
      let seen = -1;
      for (let looks = 0; looks < 60 && (heldBytes === 0 || heldBytes > seen); looks++) {
        seen = heldBytes;
        await sleep(150);
      }
      await channel.ping(); // returns the flow from the addon to JavaScript
      stream.consumed(heldBytes);
      // Agent and host share one process: its next poll finds both events.
      for (const end = performance.now() + 400; performance.now() < end; );
      const { exec, out } = await done;
      t.equal(out.length, total);
      t.match(exec, { exitCode: 0 });
      // After its exit, only the linger timeout, 2 s, could still delay it.
      t.ok(exec.agentUs - exec.durationUs < 1_900_000, `${exec.agentUs - exec.durationUs} µs after its exit`);
    },
  );

  t.test(`${reader}: a client that reads slowly is waited for`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const { stream, done } = run(channel, ['sh', '-c', 'seq 1 1000000'], { isReading: false });
    let heldBytes = 0;
    const { data } = stream.handlers;
    stream.handlers.data = (flow, chunk) => {
      data?.(flow, chunk);
      heldBytes += chunk.length;
    };
    const timer = setInterval(() => {
      stream.consumed(Math.min(heldBytes, 100_000));
      heldBytes -= Math.min(heldBytes, 100_000);
    }, 2);
    const { out } = await done;
    clearInterval(timer);
    t.ok(out.startsWith('1\n2\n') && out.endsWith('1000000\n'));
    t.equal(out.length, 6_888_896);
  });
}
