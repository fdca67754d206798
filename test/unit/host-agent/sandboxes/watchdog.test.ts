// The watchdog: reports guests that hang in several ways, and their recovery.
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { LifecycleEvents } from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import { logLifecycleEvents } from '../../../../host-agent/src/sandboxes/lifecycle-log.ts';
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
  /** Answers to pending pings of the agent. */
  readonly waiting: (() => void)[];
  isAgentWell: boolean;
};

function watch(t: Test): { readonly fake: Fake; readonly logged: string[] } {
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
  const running = Object.assign(fake, {
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
  const sandbox: Watched = {
    id: 'sbx_1',
    get state() {
      return fake.state;
    },
    running,
  };
  const logged: string[] = [];
  const log = pino({}, { write: (line: string) => void logged.push(JSON.parse(line).msg) });
  const events = new LifecycleEvents();
  events.subscribe(logLifecycleEvents(log));
  const watchdog = new Watchdog({ timeoutMs: TIMEOUT_MS, sandboxes: () => [sandbox], events, log });
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => {
    watchdog[Symbol.dispose]();
    clearInterval(alive);
  });
  return { fake, logged };
}

t.test('a silent agent is reported once, until it answers', async (t) => {
  const { fake, logged } = watch(t);
  fake.isAgentWell = false;
  await until(() => fake.hang !== undefined);
  t.equal(fake.hang, 'the guest agent has not answered for 0 s');
  await sleep(TIMEOUT_MS * 3);
  t.same(logged, ['a sandbox hangs']);
  fake.isAgentWell = true;
  for (const answer of fake.waiting) answer();
  await until(() => fake.hang === undefined);
  t.same(logged, ['a sandbox hangs', 'the guest agent answers again']);
});

t.test('a hang that begins during a save is reported after it', async (t) => {
  const { fake } = watch(t);
  fake.isSaving = true;
  fake.isAgentWell = false;
  await until(() => fake.waiting.length > 0);
  await sleep(TIMEOUT_MS * 4);
  t.equal(fake.hang, undefined, 'it is paused on purpose');
  fake.isSaving = false;
  await until(() => fake.hang !== undefined);
  t.match(fake.hang, /the guest agent has not answered/);
});

t.test('an agent that cannot be connected hangs as well', async (t) => {
  const { fake, logged } = watch(t);
  fake.isConnected = false;
  await until(() => fake.hang !== undefined);
  fake.isConnected = true;
  await until(() => fake.hang === undefined);
  t.same(logged, ['a sandbox hangs', 'the guest agent answers again']);
});

t.test('a full disk: the reason follows the state', async (t) => {
  const { fake } = watch(t);
  fake.ioPauseReason = 'the host’s disk is full';
  fake.isAgentWell = false;
  await until(() => fake.hang === 'the host’s disk is full');
  fake.ioPauseReason = undefined;
  await until(() => fake.hang !== 'the host’s disk is full');
  t.match(fake.hang, /^the guest agent has not answered/, 'there is space, and it still does not answer');
  fake.isVmmWell = false;
  await until(() => /^the VMM, and so its guest, /.test(fake.hang ?? ''));
});

t.test('a hanging VMM is logged, and its guest stays usable', async (t) => {
  const { fake, logged } = watch(t);
  fake.isVmmWell = false;
  await until(() => logged.length > 0);
  await sleep(TIMEOUT_MS * 3);
  t.equal(fake.hang, undefined);
  fake.isVmmWell = true;
  await until(() => logged.length > 1);
  t.same(logged, ['the VMM of a sandbox does not answer', 'the VMM of a sandbox answers again']);
  fake.isSaving = true;
  fake.isVmmWell = false;
  await sleep(TIMEOUT_MS * 3);
  t.equal(logged.length, 2, 'during a save it need not answer');
});

t.test('a blocked task in a guest that answers is logged once each time', async (t) => {
  const { fake, logged } = watch(t);
  fake.blockedTask = '[ 245.1] INFO: task sync:512 blocked for more than 120 seconds.';
  await until(() => logged.length > 0);
  await sleep(TIMEOUT_MS * 3);
  fake.blockedTask = '[ 367.9] INFO: task sync:512 blocked for more than 241 seconds.';
  await until(() => logged.length > 1);
  fake.blockedTask = undefined;
  await sleep(TIMEOUT_MS * 3);
  t.same(logged, ['a task of a guest is blocked', 'a task of a guest is blocked']);
  t.equal(fake.hang, undefined, 'the others can be used');
});

/** A watchdog that ticks on demand, every 3 s by its own clock. */
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
  const requests = { pings: 0, vmm: [] as number[] };
  const answers: ((isWell: boolean) => void)[] = [];
  const sandbox = {
    state: 'running' as Watched['state'],
    isSaving: false,
    hang: undefined as string | undefined,
    guest: {
      isConnected: true,
      ping: () => {
        requests.pings++;
        return new Promise<number>(() => undefined);
      },
    },
    vm: {
      ioPauseReason: undefined,
      responds: (ms: number) => {
        requests.vmm.push(ms);
        return new Promise<boolean>((resolve) => answers.push(resolve));
      },
      readBlockedTask: async () => undefined,
    },
  };
  const logged: string[] = [];
  const log = pino({}, { write: (line: string) => void logged.push(JSON.parse(line).msg) });
  const events = new LifecycleEvents();
  events.subscribe((event) => void logged.push(`${event.kind} ${'reason' in event ? event.reason : ''}`));
  const watched: Watched = {
    id: 'sbx_1',
    get state() {
      return sandbox.state;
    },
    running: sandbox,
  };
  const options = { timeoutMs: 3000, sandboxes: () => [watched], events, log };
  const watchdog = new Watchdog(options);
  const look = async (times = 1) => {
    for (let at = 0; at < times; at++) {
      looks[0]?.look();
      await new Promise(setImmediate);
    }
  };
  /** Answers all pending polls of the VMM. */
  const answer = async (isWell = true) => {
    for (const each of answers.splice(0)) each(isWell);
    await new Promise(setImmediate);
  };
  return { looks, requests, sandbox, logged, look, answer, watchdog, options };
}

const AGENT_HANGS = 'the guest agent has not answered for 3 s';

t.test('three silent ticks are a hang, and the VMM is polled once', async (t) => {
  const { looks, requests, sandbox, logged, look, answer, watchdog } = watchByHand(t);
  t.same(
    looks.map(({ ms }) => ms),
    [1000],
  );
  await look(3);
  t.same(requests, { pings: 1, vmm: [3000] }, 'one ping at a time');
  await look();
  t.same(requests.vmm, [3000, 2000], 'whether it is the VMM');
  await look(2);
  t.equal(requests.vmm.length, 2);
  t.same(logged, []);
  await answer();
  t.equal(sandbox.hang, AGENT_HANGS);
  await look(3);
  await answer();
  t.same(logged, [`hung ${AGENT_HANGS}`], 'once');
  watchdog[Symbol.dispose]();
  t.ok(looks[0]?.isCleared);
});

t.test('no hang is reported if the sandbox ended, was saved or answered meanwhile', async (t) => {
  const { sandbox, logged, look, answer } = watchByHand(t);
  await look(4);
  sandbox.state = 'deleting';
  await answer();
  sandbox.state = 'running';
  await look();
  sandbox.isSaving = true;
  await answer();
  t.same([sandbox.hang, logged], [undefined, []]);
  await look();
  sandbox.isSaving = false;
  await look(2);
  await answer();
  t.equal(sandbox.hang, undefined, 'the count starts again after a save');
  await look();
  await answer();
  t.equal(sandbox.hang, AGENT_HANGS);
});

t.test('a sandbox that is not running is not polled, and 0 turns the watchdog off', async (t) => {
  const { sandbox, requests, look, looks, options } = watchByHand(t);
  sandbox.state = 'failed';
  await look(5);
  t.same(requests, { pings: 0, vmm: [] });
  const none = new Watchdog({ ...options, timeoutMs: 0 });
  t.equal(looks.length, 1);
  none[Symbol.dispose]();
});

t.test('a VMM is reported silent at its second silence, unless it was saved meanwhile', async (t) => {
  const { sandbox, logged, look, answer } = watchByHand(t);
  const silence = async (isWell = false) => {
    await look();
    await answer(isWell);
  };
  // Its agent is a separate matter.
  sandbox.guest.ping = async () => 1;
  await silence();
  await silence(true);
  await silence();
  t.same(logged, []);
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
  t.same(logged, [], 'none of these counts');
  await silence();
  await silence();
  t.same(logged, ['the VMM of a sandbox does not answer']);
  await silence(true);
  await silence(true);
  t.same(logged.slice(1), ['the VMM of a sandbox answers again']);
});

t.test('a failed ping is repeated, and its sandbox counts as silent until then', async (t) => {
  const { sandbox, requests, look, answer, logged } = watchByHand(t);
  let isBroken = true;
  sandbox.guest.ping = async () => {
    requests.pings++;
    if (isBroken) throw new Error('the connection broke');
    return 1;
  };
  sandbox.guest.isConnected = false;
  await look(2);
  t.equal(requests.pings, 0);
  sandbox.guest.isConnected = true;
  await look();
  t.equal(requests.pings, 1);
  sandbox.guest.isConnected = false;
  await look();
  await answer(false);
  t.equal(sandbox.hang, 'the VMM, and so its guest, has not answered for 3 s');
  isBroken = false;
  sandbox.guest.isConnected = true;
  await look();
  t.equal(sandbox.hang, undefined);
  t.same(logged.at(-1), 'recovered ');
  await look(2);
  t.equal(logged.length, 2);
});
