// What would be lost by leaving a page: the user is asked first, whatever leads away from it.
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Store } from '../live/store.ts';
import type { Route } from './route.ts';

type Unsaved = {
  /** Whether it is still there on another page. */
  readonly keeps: (next: Route) => boolean;
};

/** What the user wanted to do, and is asked about. */
export const leaving = new Store<(() => void) | undefined>(undefined);
export const unsaved = new Store<Unsaved | undefined>(undefined);

window.addEventListener('beforeunload', (event) => {
  if (unsaved.value !== undefined) event.preventDefault();
});

/** Does it now, or after the user agrees to lose what is not saved. */
export function leave(go: () => void): void {
  if (unsaved.value === undefined) go();
  else leaving.set(go);
}

/** The user agreed. */
export function discard(go: () => void): void {
  leaving.set(undefined);
  unsaved.set(undefined);
  go();
}

/** While `isChanged`, what leads away from the component is asked about. */
export function useUnsaved(isChanged: boolean, keeps: Unsaved['keeps']): void {
  const current = useRef(keeps);
  current.current = keeps;
  // With the drawing, not after it: the user may leave at once.
  useLayoutEffect(() => {
    if (!isChanged) return;
    const mine: Unsaved = { keeps: (next) => current.current(next) };
    unsaved.set(mine);
    return () => {
      if (unsaved.value === mine) unsaved.set(undefined);
    };
  }, [isChanged]);
}
