// Data that is asked again and again while the page is visible, for what no event reports.
import { ForbiddenError } from '@sandboxd/client';
import { useCallback, useEffect, useState } from 'preact/hooks';
import { pause, whileVisible } from '../live/visibility.ts';
import { endIfRefused } from '../session/session.ts';
import type { Loaded } from './use-loaded.ts';

type State<T> = { readonly key: string; readonly value?: T; readonly error?: unknown };

/** The next request begins `everyMs` after the answer to the last one. A lost connection takes no value away. */
export function usePolled<T>(
  key: string,
  everyMs: number,
  load: (signal: AbortSignal) => Promise<T>,
): Loaded<T> {
  const [state, setState] = useState<State<T>>({ key });
  const [round, setRound] = useState(0);
  useEffect(
    () =>
      whileVisible(async (signal) => {
        for (;;) {
          try {
            const value = await load(signal);
            if (!signal.aborted) setState({ key, value });
          } catch (error) {
            if (signal.aborted || endIfRefused(error)) return;
            const isRefused = error instanceof ForbiddenError;
            setState((before) => (isRefused || before.key !== key ? { key, error } : { ...before, error }));
            if (isRefused) return;
          }
          await pause(everyMs, signal);
        }
      }),
    [key, round],
  );
  const reload = useCallback(() => setRound((each) => each + 1), []);
  const isCurrent = state.key === key;
  return { value: isCurrent ? state.value : undefined, error: isCurrent ? state.error : undefined, reload };
}
