// Credit that the addon returns by itself for a large file that it takes in: over a link that takes short frames whole.
import './support/addon-dir.ts';
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { INTAKE } from '../../../guest-agent/src/channel/link-intake.ts';
import { addon, NOT_NOW } from '../../../guest-agent/src/native/addon.ts';
import { POLL, Poller } from '../../../guest-agent/src/native/poller.ts';
import { dataFrame } from '../../../proto/src/wire/data-frame.ts';
import { makeTar } from '../../support/files.ts';
import { push, run, startLocalAgent } from './support/local-agent.ts';

const MIB = 2 ** 20;
// Not /tmp, which may be in memory: such files cannot go past a page cache.
const dir = await mkdtemp(join(import.meta.dirname, '../../.tap/credit-')).catch(() =>
  mkdtemp('/var/tmp/credit-'),
);
t.teardown(() => rm(dir, { recursive: true, force: true }));

const { runIntake } = addon;
let returned = 0;
let calls = 0;
addon.runIntake = (mostBytes, numbers, unread) => {
  const status = runIntake(mostBytes, numbers, unread);
  returned += numbers[4] ?? 0;
  calls += 1;
  return status;
};
t.teardown(() => {
  addon.runIntake = runIntake;
});

for (const isPort of [true, false])
  t.test(isPort ? 'a port' : 'a socket, which might take a part of a frame', async (t) => {
    const agent = startLocalAgent(t, { isPort });
    const channel = await agent.connect();
    const content = randomBytes(64 * MIB + 1);
    [returned, calls] = [0, 0];
    const { done } = push(channel, dir, await makeTar([{ name: 'large', content }]));
    t.match(await done, { filePush: { files: 1, bytes: content.length } });
    t.ok(readFileSync(join(dir, 'large')).equals(content));
    if (isPort) t.ok(returned > 48 * MIB, `${returned} bytes of credit in ${calls} calls`);
    else t.equal(returned, 0);
    t.same(agent.faults, []);
  });

t.test('a host that stops reading now and then, with other output on its way', async (t) => {
  const agent = startLocalAgent(t, { isPort: true });
  const channel = await agent.connect();
  const [socket] = agent.sockets;
  const content = randomBytes(96 * MIB);
  const output = 'yes "some output of a command" | head -c 96M';
  const { done } = push(channel, dir, await makeTar([{ name: 'among', content }]));
  const { done: ran } = run(channel, ['sh', '-c', output]);
  returned = 0;
  let isDone = false;
  const both = Promise.all([done, ran]).finally(() => {
    isDone = true;
  });
  while (!isDone) {
    socket?.pause();
    await sleep(1);
    socket?.resume();
    await sleep(1);
  }
  const [pushed, { out }] = await both;
  t.match(pushed, { filePush: { files: 1 } });
  t.ok(readFileSync(join(dir, 'among')).equals(content));
  const expected = await run(channel, ['sh', '-c', `${output} | sha256sum`]).done;
  t.equal(`${createHash('sha256').update(out).digest('hex')}  -\n`, expected.out);
  t.ok(returned > 0, `${returned} bytes of credit`);
  t.same(agent.faults, []);
});

/** An intake of a link that is blocked, driven by hand: what is written to `host` arrives there. */
function startBlockedIntake(t: Test, name: string) {
  const poller = new Poller((error) => t.fail(String(error)));
  poller.start();
  const [link, host] = addon.socketPair();
  const target = openSync(join(dir, name), 'w');
  t.ok(addon.startDirectWrite(target, 8 * MIB));
  const watch = poller.watch(link, POLL.in | POLL.edge, () => undefined);
  addon.startIntake(link, 1, target, 8 * MIB, 100_000, 1, 1);
  t.teardown(() => {
    watch.close();
    addon.stopIntake();
    addon.endDirectWrite();
    poller.stop();
    for (const fd of [link, host]) addon.close(fd);
    closeSync(target);
  });
  const send = (): void => {
    const frame = Buffer.concat(dataFrame(1, 0, randomBytes(60_000)));
    t.equal(addon.write(host, frame, 0, frame.length), frame.length);
  };
  return { host, watch, send, numbers: new Float64Array(5), bytes: Buffer.alloc(65_536) };
}

t.test('nothing is written behind a part of another frame', (t) => {
  const { host, watch, send, numbers, bytes } = startBlockedIntake(t, 'blocked');
  let due = 0;
  /** Three frames for the intake; the credit that it sent for them. */
  const takeIn = (): number => {
    for (let n = 0; n < 3; n++) send();
    numbers[0] = due;
    t.equal(addon.runIntake(MIB, numbers, bytes), INTAKE.nothingNow);
    const sent = numbers[4] ?? 0;
    due += 3 * 60_064 - sent;
    t.equal(addon.read(host, bytes, 0, bytes.length) > 0, sent > 0, `${sent} bytes of credit`);
    return sent;
  };
  t.equal(takeIn(), 0, 'the link was blocked when it began');
  watch.update(POLL.in | POLL.edge);
  t.ok(takeIn() > 3 * 60_064, 'what was due before comes along');
  watch.update(POLL.in | POLL.out | POLL.edge);
  t.equal(takeIn(), 0, 'it is blocked again');
  t.end();
});

t.test('what JavaScript returned while the link was blocked is not returned again', async (t) => {
  const { host, watch, send, numbers, bytes } = startBlockedIntake(t, 'returned');
  for (let n = 0; n < 3; n++) send();
  t.equal(addon.runIntake(MIB, numbers, bytes), INTAKE.nothingNow);
  t.equal(numbers[4], 0, 'all of it is worth a frame, which is left to JavaScript');
  watch.update(POLL.in | POLL.edge);
  send();
  await sleep(50);
  t.equal(addon.read(host, bytes, 0, bytes.length), NOT_NOW, 'one frame is not worth any yet');
  send();
  await sleep(50);
  t.ok(addon.read(host, bytes, 0, bytes.length) > 0, 'two are');
  numbers[0] = 0;
  t.equal(addon.runIntake(MIB, numbers, bytes), INTAKE.nothingNow);
  t.equal(numbers[4], 2 * 60_064);
});
