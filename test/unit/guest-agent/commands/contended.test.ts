// Detached commands that several clients want, or that are ended at an odd moment, on real processes.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FLOW } from '@sandboxd/proto';
import t from 'tap';
import { until } from '../../../support/until.ts';
import { mountCgroups } from '../support/cgroup-mount.ts';
import { Attached, attach, call, detach, isAlive, TAKE, WRITE, waitFor } from '../support/detached.ts';
import { startLocalAgent } from '../support/local-agent.ts';

if (process.getuid?.() !== 0) t.bailout('the agent runs as root: run these tests as root');

// Before there are agents, which would take the exit of the program that mounts them.
const mount = mountCgroups();

t.test('input that is taken over leaves no request waiting', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const dir = t.testdir();
  const script = `until [ -e ${dir}/go ]; do sleep 0.05; done; exec wc -c`;
  const command = await detach(channel, script, { stdin: true });
  const put = (size: number): { readonly input: Attached; readonly sent: () => number } => {
    const input = new Attached(channel, { id: command.id, noOutput: true, input: WRITE });
    let sent = 0;
    input.stream.setSource(FLOW.in, (maxBytes) => {
      const part = Buffer.alloc(Math.min(maxBytes, size - sent));
      sent += part.length;
      if (part.length === 0 && sent === size) input.stream.end(FLOW.in);
      return part.length > 0 ? part : null;
    });
    input.stream.ready(FLOW.in);
    return { input, sent: () => sent };
  };
  const whole = put(1_100_000);
  await until(() => whole.sent() === 1_100_000, 'all of it, more than a pipe holds');
  await call(channel, { id: command.id });
  const taker = attach(channel, command, { input: TAKE });
  taker.stream.cancel();
  await taker.end.promise;
  const half = put(9_000_000);
  const second = attach(channel, command, { input: TAKE });
  await t.rejects(half.input.end.promise, { code: 'conflict', message: /taken over/ });
  second.stream.cancel();
  await second.end.promise;
  writeFileSync(join(dir, 'go'), '');
  await whole.input.end.promise;
  const last = new Attached(channel, { id: command.id, noOutput: true, input: WRITE, closesInput: true });
  last.write('x', true);
  await last.end.promise;
  t.match(await waitFor(channel, command), { result: { exitCode: 0 } });
  t.same(agent.faults, []);
});

t.test('a small buffer makes no record of each byte', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const command = await detach(channel, 'head -c 2000000 /dev/zero', { outputBufferBytes: 1 });
  const { output } = await waitFor(channel, command);
  t.ok(Number(output?.nextSeq) <= 2000, `${output?.nextSeq} records`);
  t.ok(Number(output?.droppedBytes) >= 2_000_000 - 4096);
});

t.test('a kill ends at once what a command has left behind', async (t) => {
  const root = mkdtempSync(join(mount, 'sandboxd-'));
  const channel = await startLocalAgent(t, { cgroupRoot: root }).connect();
  const command = await detach(channel, 'sleep 600 & echo $!; exit 3');
  const reader = attach(channel, command);
  await until(() => reader.text !== '' && !isAlive(command.pid), 'its exit');
  const { result } = await call(channel, { id: command.id, kill: { graceMs: 60_000 } });
  t.match(result, { exitCode: 3 });
  t.ok(Number(result?.durationUs) < 60_000_000);
  await until(() => !isAlive(Number(reader.text)), 'the end of the other');
});
