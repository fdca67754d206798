// Runs the work of a file call with the rights of a user of the guest, in slices, so that other calls are served
// meanwhile.
import { AgentError, type ResultInput, type Stream } from '@sandboxd/proto';
import { type ResolvedUser, resolveUser } from '../exec/users.ts';
import { logError } from '../lib/log.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';

/** Longest time that a call keeps the agent from others, milliseconds. */
const SLICE_MS = 5;

export type Actor = Pick<ResolvedUser, 'uid' | 'gid' | 'groups'>;

/** Names of users and groups, read once for a call. */
export type Names = { readonly passwd: string; readonly group: string };

export function readNames(): Names {
  return {
    passwd: addon.readText(NO_DIRECTORY, '/etc/passwd'),
    group: addon.readText(NO_DIRECTORY, '/etc/group'),
  };
}

/** Throws AgentError for a user that does not exist. */
export function findActor(user: string, names: Names): Actor {
  const found = resolveUser(user, names);
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

/** Going on with another user's rights would be worse than an end of the guest. */
function becomeRoot(): void {
  if (addon.actAs(0, 0, []) < 0) throw new Error('cannot act as root again');
}

/** Steps of work: each `next` does a little. Its `finally` blocks clean up when the call is cancelled. */
export type Step<T> = Generator<undefined, T, undefined>;

/** Runs the steps as the user; their result, or the AgentError that they throw, is the call's. */
export function runSteps(stream: Stream, actor: Actor, steps: Step<ResultInput>): void {
  let isOver = false;
  const end = (): void => {
    isOver = true;
  };
  const stop = (): void => {
    if (isOver) return;
    end();
    // The caller is gone: errors of the clean-up are only logged.
    try {
      actAs(actor, () => steps.return({}));
    } catch (error) {
      logError('a cancelled file call', error);
    }
  };
  stream.handlers = {
    cancel: () => {
      stop();
      stream.finish({ error: { code: 'cancelled', message: 'the call was cancelled' } });
    },
    lost: stop,
  };
  const slice = (): void => {
    if (isOver) return;
    const until = performance.now() + SLICE_MS;
    try {
      const result = actAs(actor, () => {
        for (;;) {
          const step = steps.next();
          if (step.done === true) return step.value;
          if (performance.now() > until) return undefined;
        }
      });
      if (result === undefined) {
        setImmediate(slice);
        return;
      }
      end();
      stream.finish(result);
    } catch (error) {
      end();
      if (!(error instanceof AgentError)) throw error;
      stream.finish({ error: { code: error.code, message: error.message } });
    }
  };
  slice();
}
