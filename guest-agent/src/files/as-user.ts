// Runs the work of a file call with the rights of a user of the guest, in slices, so that other calls are served
// meanwhile.
import { AgentError, type ResultInput, type Stream } from '@sandboxd/proto';
import { type ResolvedUser, resolveUser, type UserFiles } from '../exec/users.ts';
import { logError } from '../lib/log.ts';
import { addon } from '../native/addon.ts';

/** Longest time that a call keeps the agent from others, milliseconds. */
const SLICE_MS = 5;

export type Actor = Pick<ResolvedUser, 'uid' | 'gid' | 'groups'>;

/** Throws AgentError for a user that does not exist. */
export function findActor(user: string, files: UserFiles): Actor {
  const found = resolveUser(user, files);
  if ('error' in found) throw new AgentError('invalid', found.error);
  return found.user;
}

/** Runs `work` as the user. It must be synchronous: nothing else may run with these rights. */
export function actAs<T>({ uid, gid, groups }: Actor, work: () => T): T {
  if (uid === 0 && gid === 0) return work();
  const result = addon.actAs(uid, gid, groups);
  try {
    if (result < 0) throw new AgentError('internal', `cannot act as user ${uid} (error ${-result})`);
    return work();
  } finally {
    becomeRoot();
  }
}

export type Owner = Pick<Actor, 'uid' | 'gid'>;

/** Runs `work`, whose files belong to the owner, with root's rights. It must be synchronous. */
export function ownAs<T>({ uid, gid }: Owner, work: () => T): T {
  if (uid === 0 && gid === 0) return work();
  const result = addon.ownAs(uid, gid);
  try {
    if (result < 0) throw new AgentError('internal', `cannot make files of user ${uid} (error ${-result})`);
    return work();
  } finally {
    ownAsRoot();
  }
}

function ownAsRoot(): void {
  if (addon.ownAs(0, 0) < 0) throw new Error('cannot make files of root again');
}

/** Going on with another user's rights would be worse than an end of the guest. */
function becomeRoot(): void {
  if (addon.actAs(0, 0, []) < 0) throw new Error('cannot act as root again');
}

/** Steps of work: each `next` does a little. Its `finally` blocks clean up when the call is cancelled. */
export type Step<T> = Generator<undefined, T, undefined>;

/** Runs the steps as the user; their result, or the AgentError that they throw, is the call's. */
export function runSteps(stream: Stream, actor: Actor, steps: Step<ResultInput>): void {
  const run = new SlicedRun(actor, steps, (result) => stream.finish(result));
  stream.handlers = {
    cancel: () => {
      run.stop();
      stream.finish({ error: { code: 'cancelled', message: 'the call was cancelled' } });
    },
    lost: () => run.stop(),
  };
  run.start();
}

/** Yielded by steps that can do nothing until `resume`. */
export const PARK = 'park';
export type ParkedStep<T> = Generator<undefined | typeof PARK, T, undefined>;

/** Runs steps as the user, in slices. */
export class SlicedRun {
  readonly #actor: Actor;
  readonly #steps: ParkedStep<ResultInput>;
  readonly #finish: (result: ResultInput) => void;
  readonly #afterSlice: () => void;
  #isOver = false;
  /** A slice runs, or is due. */
  #isActive = false;
  /** `resume` came while a slice ran. */
  #isResumed = false;

  /** `finish` gets the result, or the AgentError that the steps throw. `afterSlice` runs as root. */
  constructor(
    actor: Actor,
    steps: ParkedStep<ResultInput>,
    finish: (result: ResultInput) => void,
    afterSlice: () => void = () => undefined,
  ) {
    this.#actor = actor;
    this.#steps = steps;
    this.#finish = finish;
    this.#afterSlice = afterSlice;
  }

  start(): void {
    this.#isActive = true;
    this.#slice();
  }

  /** Continues parked steps, soon. */
  resume(): void {
    this.#isResumed = true;
    if (this.#isOver || this.#isActive) return;
    this.#isActive = true;
    setImmediate(() => this.#slice());
  }

  /** Ends the steps; there is no result. */
  stop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    // The caller is gone: errors of the clean-up are only logged.
    try {
      actAs(this.#actor, () => this.#steps.return({}));
    } catch (error) {
      logError('a cancelled file call', error);
    }
  }

  #slice(): void {
    if (this.#isOver) return;
    const until = performance.now() + SLICE_MS;
    try {
      const result = actAs(this.#actor, () => {
        for (;;) {
          this.#isResumed = false;
          const step = this.#steps.next();
          if (step.done === true) return step.value;
          if (step.value === PARK) return PARK;
          if (performance.now() > until) return undefined;
        }
      });
      if (result === undefined || result === PARK) {
        this.#isActive = result === undefined;
        if (this.#isActive) setImmediate(() => this.#slice());
        this.#afterSlice();
        if (this.#isResumed) this.resume();
        return;
      }
      this.#isOver = true;
      this.#finish(result);
    } catch (error) {
      this.#isOver = true;
      const { code, message } =
        error instanceof AgentError ? error : { code: 'internal', message: 'the call failed in the agent' };
      this.#finish({ error: { code, message } });
      if (!(error instanceof AgentError)) throw error;
    }
  }
}
