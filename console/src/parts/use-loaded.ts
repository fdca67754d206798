// Data that a component loads when it is drawn and again on demand.
import { useCallback, useEffect, useState } from 'preact/hooks';
import { endIfRefused } from '../session/session.ts';

export type Loaded<T> = {
  readonly value: T | undefined;
  readonly error: unknown;
  readonly reload: () => void;
};

/** `key` names what is loaded; the old value stays until the next one of the same key is there. */
export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ key: string; value?: T; error?: unknown }>({ key });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const left = new AbortController();
    load(left.signal).then(
      (value) => left.signal.aborted || setState({ key, value }),
      (error: unknown) => left.signal.aborted || endIfRefused(error) || setState({ key, error }),
    );
    return () => left.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((each) => each + 1), []);
  const isCurrent = state.key === key;
  return { value: isCurrent ? state.value : undefined, error: isCurrent ? state.error : undefined, reload };
}
