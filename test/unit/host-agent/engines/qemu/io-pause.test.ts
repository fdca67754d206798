// A guest that is paused because the host's disk is full: it is resumed when there is space, and not during a save.
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { IO_ERROR, IoPause } from '../../../../../host-agent/src/engines/qemu/io-pause.ts';
import { until } from '../../../../support/until.ts';

const RETRY_MS = 5;

function standing(t: Test) {
  const seen = { status: IO_ERROR, resumes: 0, resumed: 0, isOver: false };
  const alive = setInterval(() => undefined, 1000);
  const standstill = new IoPause({
    readStatus: async () => seen.status,
    resume: async () => void seen.resumes++,
    isOver: () => seen.isOver,
    onResumed: () => void seen.resumed++,
    log: pino({ level: 'silent' }),
    retryMs: RETRY_MS,
  });
  t.teardown(() => {
    seen.isOver = true;
    clearInterval(alive);
  });
  standstill.begin('No space left on device');
  return { seen, standstill };
}

t.test('it is tried again until the guest runs', async (t) => {
  const { seen, standstill } = standing(t);
  await until(() => seen.resumes >= 2, 'two tries');
  t.match(standstill.reason, /\(no space left on device\); it is paused until it does$/);
  t.equal(seen.resumed, 0);
  seen.status = 'running';
  await until(() => standstill.reason === undefined, 'its end');
  t.equal(seen.resumed, 1, 'its clock is told');
});

t.test('within a save it is left alone', async (t) => {
  const { seen, standstill } = standing(t);
  const gate = Promise.withResolvers<void>();
  const saving = standstill.duringSave(() => gate.promise);
  await sleep(20 * RETRY_MS);
  t.equal(seen.resumes, 0);
  gate.resolve();
  await saving;
  await until(() => seen.resumes > 0, 'the next try');
});

t.test('one that is over is not asked any more', async (t) => {
  const { seen } = standing(t);
  seen.isOver = true;
  await sleep(20 * RETRY_MS);
  t.equal(seen.resumes, 0);
});

t.test(
  'a guest that is paused by a full disk is resumed until its writes succeed, but never during a save',
  async (t) => {
    const done: string[] = [];
    let status = 'io-error';
    let tries = 0;
    let isOver = false;
    const make = () =>
      new IoPause({
        readStatus: async () => {
          if (tries === 1) throw new Error('busy');
          return status;
        },
        // The disk has space at the third attempt.
        resume: async () => {
          done.push('resumed');
          if (++tries === 3) status = 'running';
        },
        isOver: () => isOver,
        onResumed: () => done.push('clock'),
        log: pino({ level: 'silent' }),
        retryMs: 5,
      });
    const waitFor = async (condition: () => boolean) => {
      for (let round = 0; round < 1000 && !condition(); round++) await sleep(5);
      t.ok(condition());
    };
    const keepAlive = setInterval(() => undefined, 1000);
    t.teardown(() => clearInterval(keepAlive));
    const standstill = make();
    t.equal(standstill.reason, undefined);
    await standstill.duringSave(async () => {
      standstill.begin('No space left on device');
      standstill.begin('No space left on device');
      t.match(standstill.reason, /does not take .*\(no space left on device\)/);
      await sleep(50);
      t.same(done, [], 'what is saved stands still on purpose');
    });
    await waitFor(() => tries === 1);
    tries = 2;
    await waitFor(() => standstill.reason === undefined);
    t.same(done, ['resumed', 'resumed', 'clock']);
    status = 'io-error';
    const abandoned = make();
    abandoned.begin('x');
    isOver = true;
    await sleep(50);
    t.equal(done.length, 3, 'one that ended is left alone');
  },
);
