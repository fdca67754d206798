// What the watchdog says of guests that hang, in whichever way, and when it takes that back.
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { LifeEvents, logLifeEvents } from '../../../../host-agent/src/sandboxes/life-events.ts';
import { Watchdog, type Watched } from '../../../../host-agent/src/sandboxes/watchdog.ts';
import { until } from '../../../support/until.ts';

const TIMEOUT_MS = 60;

type Fake = {
  state: Watched['state'];
  isSaving: boolean;
  hang: string | undefined;
  isConnected: boolean;
  standstill: string | undefined;
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
    standstill: undefined,
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
      get standstill() {
        return fake.standstill;
      },
      responds: async () => fake.isVmmWell,
      readBlockedTask: async () => fake.blockedTask,
    },
  });
  const said: string[] = [];
  const log = pino({}, { write: (line: string) => void said.push(JSON.parse(line).msg) });
  const events = new LifeEvents();
  events.subscribe(logLifeEvents(log));
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
  fake.standstill = 'the host’s disk is full';
  fake.isAgentWell = false;
  await until(() => fake.hang === 'the host’s disk is full');
  fake.standstill = undefined;
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
