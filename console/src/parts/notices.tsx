// Short notices at the foot of the page, which a screen reader announces.
import { ApiError } from '@sandboxd/client';
import { Store, useStore } from '../live/store.ts';
import { endIfRefused, requestIdOf, toSentence } from '../session/session.ts';
import { toVisibleLines } from './format.ts';

type Notice = { readonly id: number; readonly text: string; readonly requestId?: string | undefined };

const SHOWN_MS = 7000;
const MAX_NOTICES = 4;
const notices = new Store<readonly Notice[]>([]);
let count = 0;

export function notify(text: string, requestId?: string): void {
  const notice = { id: count++, text, requestId };
  notices.set([...notices.value, notice].slice(-MAX_NOTICES));
  setTimeout(() => dismiss(notice.id), SHOWN_MS);
}

function dismiss(id: number): void {
  notices.set(notices.value.filter((each) => each.id !== id));
}

/** Runs an action of the user; its failure is a notice with the daemon's sentence. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!endIfRefused(error)) notify(toSentence(error), requestIdOf(error));
    if (!(error instanceof ApiError)) console.error(error);
    return undefined;
  }
}

export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {useStore(notices).map(({ id, text, requestId }) => (
        <div class="notice" key={id}>
          <span>{toVisibleLines(text)}</span>
          {requestId !== undefined && <code>{requestId}</code>}
          <button type="button" class="notice-close" aria-label="Dismiss" onClick={() => dismiss(id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
