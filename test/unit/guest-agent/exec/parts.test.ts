// Unit tests of exec's parts (descriptors, cgroups), with a simulated kernel.
import '../support/addon-dir.ts';
import type { Stream } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import type { ExecCgroups } from '../../../../guest-agent/src/exec/cgroups.ts';
import { Freezer } from '../../../../guest-agent/src/exec/freezer.ts';
import { InputPump } from '../../../../guest-agent/src/exec/input-pump.ts';
import { discardOutput } from '../../../../guest-agent/src/exec/output-pump.ts';
import { NOT_NOW } from '../../../../guest-agent/src/native/addon.ts';
import type { Poller } from '../../../../guest-agent/src/native/poller.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { replaceInAddon } from '../support/replaced-addon.ts';

const FD = 5_000_000;

/** A poller that the test wakes. */
function startPoller() {
  const watches: { mask: number; wake: () => void }[] = [];
  const poller = {
    watch: (_fd: number, mask: number, wake: () => void) => {
      const watch = { mask, wake };
      watches.push(watch);
      return { id: 1, update: () => {}, close: () => void watches.splice(watches.indexOf(watch), 1) };
    },
  };
  return { poller: poller as unknown as Poller, watches };
}

t.test(
  'output without a reader is discarded, a megabyte at a time, until its writers are gone',
  async (t) => {
    const timers = new FakeClock(t);
    const { poller, watches } = startPoller();
    let read = 0;
    let next: () => number = () => 65_536;
    const closed: number[] = [];
    replaceInAddon(t, {
      read: () => {
        const got = next();
        if (got > 0) read += got;
        return got;
      },
      close: (fd) => void closed.push(fd),
    });
    discardOutput(poller, FD);
    watches[0]?.wake();
    t.same([read, timers.delays], [2 ** 20, [10]]);
    next = () => (read < 1.5 * 2 ** 20 ? 65_536 : NOT_NOW);
    timers.tick(timers.delays[0] ?? 0);
    t.same([read, timers.delays, watches.length], [1.5 * 2 ** 20, [], 1]);
    next = () => 0;
    watches[0]?.wake();
    t.same([closed, watches.length, timers.delays], [[FD], 0, []]);
    discardOutput(poller, FD + 1);
    next = () => {
      throw new Error('EIO');
    };
    watches[0]?.wake();
    t.same([closed, watches.length], [[FD, FD + 1], 0]);
  },
);

/** Cgroups that stop when the test decides. */
function makeFreezer(t: Test) {
  const calls: boolean[] = [];
  const world = { canFreeze: true, hasStopped: false };
  const freezer = new Freezer({
    get canFreeze() {
      return world.canFreeze;
    },
    get hasStopped() {
      return world.hasStopped;
    },
    setFrozen: (isFrozen: boolean) => void calls.push(isFrozen),
  } as unknown as ExecCgroups);
  return { freezer, calls, world, timers: new FakeClock(t) };
}

t.test(
  'a freeze is answered once all processes have stopped, are thawed, or half a second has passed',
  async (t) => {
    const { freezer, calls, world, timers } = makeFreezer(t);
    let answers = 0;
    const freeze = (): void => freezer.freeze('one', () => answers++);
    freeze();
    t.same([calls, answers, timers.delays], [[true], 0, [1]]);
    world.hasStopped = true;
    timers.tick(timers.delays[0] ?? 0);
    t.same([answers, timers.delays], [1, []]);
    world.hasStopped = false;
    freeze();
    freezer.thaw();
    timers.tick(timers.delays[0] ?? 0);
    t.same([answers, timers.delays, calls], [2, [], [true, true, false]]);
    freeze();
    timers.tick(500);
    t.equal(answers, 2);
    timers.tick(1);
    t.same([answers, timers.delays], [3, []]);
    freezer.thaw();
    freezer.thaw();
    t.equal(calls.length, 5, 'what goes on is not let go on');
    world.canFreeze = false;
    t.throws(freeze, { code: 'unsupported' });
    t.equal(calls.length, 5);
  },
);

t.test('while frozen, commands are refused, and the service waits', async (t) => {
  const { freezer, world } = makeFreezer(t);
  world.hasStopped = true;
  const done: string[] = [];
  freezer.whenThawed(() => done.push('before'));
  freezer.assertThawed();
  freezer.greeted('one');
  freezer.freeze('one', () => {});
  t.throws(() => freezer.assertThawed(), { code: 'busy' });
  for (const work of ['first', 'second']) freezer.whenThawed(() => done.push(work));
  freezer.greeted('another');
  t.same(done, ['before']);
  freezer.greeted('one');
  t.same(done, ['before', 'first', 'second']);
  freezer.assertThawed();
  freezer.freeze(undefined, () => {});
  freezer.thaw();
  t.equal(done.length, 3, 'each once');
});

/** A command's input whose reader accepts what the test defines. */
function startInput(t: Test) {
  const { poller, watches } = startPoller();
  const taken: (number | undefined)[] = [];
  let written = '';
  let consumed = 0;
  let ends = 0;
  replaceInAddon(t, {
    write: (_fd, buffer, offset, length) => {
      const room = taken.shift();
      if (room === undefined) throw Object.assign(new Error('EPIPE'), { code: 'EPIPE' });
      if (room === 0) return NOT_NOW;
      const bytes = Math.min(room, length);
      written += Buffer.from(buffer).toString('latin1', offset, offset + bytes);
      return bytes;
    },
  });
  const stream = {
    consumed: (bytes: number) => {
      consumed += bytes;
    },
  };
  const pump = new InputPump({ poller, stream: stream as unknown as Stream, fd: FD, onEnd: () => ends++ });
  const push = (text: string): void => {
    const chunk = Buffer.from(text);
    pump.push(chunk);
    // The chunk was borrowed.
    chunk.fill('!');
  };
  return { pump, push, taken, watches, state: () => [written, consumed, ends] };
}

t.test('input waits for its reader, and is consumed as that takes it', async (t) => {
  const { pump, push, taken, watches, state } = startInput(t);
  taken.push(10, 2, 0);
  push('whole');
  t.same([state(), watches.length], [['whole', 5, 0], 0]);
  push('abcd');
  t.same([state(), watches.length], [['wholeab', 7, 0], 1]);
  push('efg');
  t.same([taken.length, watches.length], [1, 1], 'what waits goes first');
  watches[0]?.wake();
  t.same(state(), ['wholeab', 7, 0]);
  pump.end();
  taken.push(1, 9, 9);
  watches[0]?.wake();
  t.same([state(), watches.length], [['wholeabcdefg', 12, 1], 0]);
  pump.end();
  t.equal(state()[2], 1, 'once');
});

t.test('input without a reader is consumed too', async (t) => {
  const gone = startInput(t);
  gone.push('never read');
  t.same([gone.state(), gone.watches.length], [['', 10, 0], 0]);
  gone.push('nor this');
  gone.pump.end();
  t.same(gone.state(), ['', 18, 0]);
  const half = startInput(t);
  half.taken.push(0);
  half.push('held');
  half.push(' and held');
  t.same([half.state(), half.watches.length], [['', 0, 0], 1]);
  half.watches[0]?.wake();
  t.same([half.state(), half.watches.length], [['', 13, 0], 0]);
  const empty = startInput(t);
  empty.pump.end();
  t.same(empty.state(), ['', 0, 1]);
});
