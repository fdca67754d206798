// What the watchdog says of guests that hang, in whichever way, and when it takes that back.
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import {
  LifecycleEvents,
  logLifecycleEvents,
} from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import { Watchdog, type Watched } from '../../../../host-agent/src/sandboxes/watchdog.ts';
import { until } from '../../../support/until.ts';

const TIMEOUT_MS = 60;

type Fake = {
  state: Watched['state'];
  isSaving: boolean;
  hang: string | undefined;
  isConnected: boolean;
  ioPauseReason: string | undefined;
  isVmmWell: boolean;
  blockedTask: string | undefined;
  /** Answers to what was asked of the agent and not answered yet. */
  readonly waiting: (() => void)[];
  isAgentWell: boolean;
};

function watch(t: Test): { readonly fake: Fake; readonly said: string[] } {
  const fake: Fake = {
    state: 'running',
    isSaving: false,
    hang: undefined,
    isConnected: true,
    ioPauseReason: undefined,
    isVmmWell: true,
    blockedTask: undefined,
    waiting: [],
    isAgentWell: true,
  };
  const sandbox: Watched = Object.assign(fake, {
    id: 'sbx_1',
    guest: {
      get isConnected() {
        return fake.isConnected;
      },
      ping: () =>
        new Promise<number>((resolve) => {
          if (fake.isAgentWell) resolve(1);
          else fake.waiting.push(() => resolve(1));
        }),
    },
    vm: {
      get ioPauseReason() {
        return fake.ioPauseReason;
      },
      responds: async () => fake.isVmmWell,
      readBlockedTask: async () => fake.blockedTask,
    },
  });
  const said: string[] = [];
  const log = pino({}, { write: (line: string) => void said.push(JSON.parse(line).msg) });
  const events = new LifecycleEvents();
  events.subscribe(logLifecycleEvents(log));
  const watchdog = new Watchdog({ timeoutMs: TIMEOUT_MS, sandboxes: () => [sandbox], events, log });
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => {
    watchdog[Symbol.dispose]();
    clearInterval(alive);
  });
  return { fake, said };
}

t.test('an agent that does not answer is named, once, until it answers', async (t) => {
  const { fake, said } = watch(t);
  fake.isAgentWell = false;
  await until(() => fake.hang !== undefined);
  t.equal(fake.hang, 'the guest agent has not answered for 0 s');
  await sleep(TIMEOUT_MS * 3);
  t.same(said, ['a sandbox hangs']);
  fake.isAgentWell = true;
  for (const answer of fake.waiting) answer();
  await until(() => fake.hang === undefined);
  t.same(said, ['a sandbox hangs', 'the guest agent answers again']);
});

t.test('a hang that begins in a save is named after it', async (t) => {
  const { fake } = watch(t);
  fake.isSaving = true;
  fake.isAgentWell = false;
  await until(() => fake.waiting.length > 0);
  await sleep(TIMEOUT_MS * 4);
  t.equal(fake.hang, undefined, 'it stands still on purpose');
  fake.isSaving = false;
  await until(() => fake.hang !== undefined);
  t.match(fake.hang, /the guest agent has not answered/);
});

t.test('an agent that cannot be connected to hangs as well', async (t) => {
  const { fake, said } = watch(t);
  fake.isConnected = false;
  await until(() => fake.hang !== undefined);
  fake.isConnected = true;
  await until(() => fake.hang === undefined);
  t.same(said, ['a sandbox hangs', 'the guest agent answers again']);
});

t.test('a disk that was full: what is said follows what is so', async (t) => {
  const { fake } = watch(t);
  fake.ioPauseReason = 'the host’s disk is full';
  fake.isAgentWell = false;
  await until(() => fake.hang === 'the host’s disk is full');
  fake.ioPauseReason = undefined;
  await until(() => fake.hang !== 'the host’s disk is full');
  t.match(
    fake.hang,
    /^the guest agent has not answered/,
    'there is room, and it does not answer all the same',
  );
  fake.isVmmWell = false;
  await until(() => /^the VMM, and so its guest, /.test(fake.hang ?? ''));
});

t.test('a VMM that hangs alone is said, and its guest can be used', async (t) => {
  const { fake, said } = watch(t);
  fake.isVmmWell = false;
  await until(() => said.length > 0);
  await sleep(TIMEOUT_MS * 3);
  t.equal(fake.hang, undefined);
  fake.isVmmWell = true;
  await until(() => said.length > 1);
  t.same(said, ['the VMM of a sandbox does not answer', 'the VMM of a sandbox answers again']);
  fake.isSaving = true;
  fake.isVmmWell = false;
  await sleep(TIMEOUT_MS * 3);
  t.equal(said.length, 2, 'while it saves it need not answer');
});

t.test('a task that is blocked in a guest that answers is said once for each time', async (t) => {
  const { fake, said } = watch(t);
  fake.blockedTask = '[ 245.1] INFO: task sync:512 blocked for more than 120 seconds.';
  await until(() => said.length > 0);
  await sleep(TIMEOUT_MS * 3);
  fake.blockedTask = '[ 367.9] INFO: task sync:512 blocked for more than 241 seconds.';
  await until(() => said.length > 1);
  fake.blockedTask = undefined;
  await sleep(TIMEOUT_MS * 3);
  t.same(said, ['a task of a guest is blocked', 'a task of a guest is blocked']);
  t.equal(fake.hang, undefined, 'the others can be used');
});

/** A watchdog that looks when it is told to, every 3 s by its own account. */
function watchByHand(t: Test) {
  const looks: { readonly look: () => void; readonly ms: number; isCleared: boolean }[] = [];
  t.intercept(globalThis, 'setInterval', {
    value: (look: () => void, ms: number) => {
      const timer = { look, ms, isCleared: false, unref: () => timer };
      looks.push(timer);
      return timer;
    },
  });
  t.intercept(globalThis, 'clearInterval', {
    value: (timer?: { isCleared: boolean }) => {
      if (timer !== undefined) timer.isCleared = true;
    },
  });
  const asked = { pings: 0, vmm: [] as number[] };
  const answers: ((isWell: boolean) => void)[] = [];
  const sandbox = {
    id: 'sbx_1',
    state: 'running' as Watched['state'],
    isSaving: false,
    hang: undefined as string | undefined,
    guest: {
      isConnected: true,
      ping: () => {
        asked.pings++;
        return new Promise<number>(() => undefined);
      },
    },
    vm: {
      ioPauseReason: undefined,
      responds: (ms: number) => {
        asked.vmm.push(ms);
        return new Promise<boolean>((resolve) => answers.push(resolve));
      },
      readBlockedTask: async () => undefined,
    },
  };
  const said: string[] = [];
  const log = pino({}, { write: (line: string) => void said.push(JSON.parse(line).msg) });
  const events = new LifecycleEvents();
  events.subscribe((event) => void said.push(`${event.kind} ${'reason' in event ? event.reason : ''}`));
  const options = { timeoutMs: 3000, sandboxes: () => [sandbox], events, log };
  const watchdog = new Watchdog(options);
  const look = async (times = 1) => {
    for (let at = 0; at < times; at++) {
      looks[0]?.look();
      await new Promise(setImmediate);
    }
  };
  /** Answers all that was asked of the VMM so far. */
  const answer = async (isWell = true) => {
    for (const each of answers.splice(0)) each(isWell);
    await new Promise(setImmediate);
  };
  return { looks, asked, sandbox, said, look, answer, watchdog, options };
}

const AGENT_HANGS = 'the guest agent has not answered for 3 s';

t.test('three looks without an answer are a hang, and it is asked of the VMM once', async (t) => {
  const { looks, asked, sandbox, said, look, answer, watchdog } = watchByHand(t);
  t.same(
    looks.map(({ ms }) => ms),
    [1000],
  );
  await look(3);
  t.same(asked, { pings: 1, vmm: [3000] }, 'one question at a time');
  await look();
  t.same(asked.vmm, [3000, 2000], 'whether it is the VMM');
  await look(2);
  t.equal(asked.vmm.length, 2);
  t.same(said, []);
  await answer();
  t.equal(sandbox.hang, AGENT_HANGS);
  await look(3);
  await answer();
  t.same(said, [`hung ${AGENT_HANGS}`], 'once');
  watchdog[Symbol.dispose]();
  t.ok(looks[0]?.isCleared);
});

t.test('what is over, saved or heard again when the VMM has answered is no hang', async (t) => {
  const { sandbox, said, look, answer } = watchByHand(t);
  await look(4);
  sandbox.state = 'deleting';
  await answer();
  sandbox.state = 'running';
  await look();
  sandbox.isSaving = true;
  await answer();
  t.same([sandbox.hang, said], [undefined, []]);
  await look();
  sandbox.isSaving = false;
  await look(2);
  await answer();
  t.equal(sandbox.hang, undefined, 'it begins anew behind a save');
  await look();
  await answer();
  t.equal(sandbox.hang, AGENT_HANGS);
});

t.test('a sandbox that is not running is not asked, and 0 watches nothing', async (t) => {
  const { sandbox, asked, look, looks, options } = watchByHand(t);
  sandbox.state = 'failed';
  await look(5);
  t.same(asked, { pings: 0, vmm: [] });
  const none = new Watchdog({ ...options, timeoutMs: 0 });
  t.equal(looks.length, 1);
  none[Symbol.dispose]();
});

t.test('a VMM is said to be silent at its second silence, unless it was saved meanwhile', async (t) => {
  const { sandbox, said, look, answer } = watchByHand(t);
  const silence = async (isWell = false) => {
    await look();
    await answer(isWell);
  };
  // Its agent is another matter.
  sandbox.guest.ping = async () => 1;
  await silence();
  await silence(true);
  await silence();
  t.same(said, []);
  sandbox.isSaving = true;
  await silence();
  sandbox.isSaving = false;
  await look();
  sandbox.isSaving = true;
  await look();
  sandbox.isSaving = false;
  await answer(false);
  await look();
  sandbox.state = 'failed';
  await answer(false);
  sandbox.state = 'running';
  t.same(said, [], 'none of these counts');
  await silence();
  await silence();
  t.same(said, ['the VMM of a sandbox does not answer']);
  await silence(true);
  await silence(true);
  t.same(said.slice(1), ['the VMM of a sandbox answers again']);
});

t.test('a question that broke off is asked again, and what it was of stays silent until then', async (t) => {
  const { sandbox, asked, look, answer, said } = watchByHand(t);
  let isBroken = true;
  sandbox.guest.ping = async () => {
    asked.pings++;
    if (isBroken) throw new Error('the connection broke');
    return 1;
  };
  sandbox.guest.isConnected = false;
  await look(2);
  t.equal(asked.pings, 0);
  sandbox.guest.isConnected = true;
  await look();
  t.equal(asked.pings, 1);
  sandbox.guest.isConnected = false;
  await look();
  await answer(false);
  t.equal(sandbox.hang, 'the VMM, and so its guest, has not answered for 3 s');
  isBroken = false;
  sandbox.guest.isConnected = true;
  await look();
  t.equal(sandbox.hang, undefined);
  t.same(said.at(-1), 'recovered ');
  await look(2);
  t.equal(said.length, 2);
});
