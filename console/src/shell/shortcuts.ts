// Keys: a single one, or `g` and a second one. They do nothing while the user types.
import { useEffect, useRef } from 'preact/hooks';

export type Shortcut = { readonly keys: string; readonly what: string; readonly run: () => void };

const SECOND_MS = 1200;
let first: { readonly key: string; readonly at: number } | undefined;
const active = new Set<{ readonly current: readonly Shortcut[] }>();

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector('dialog[open]') !== null) return;
  const isSecond = first !== undefined && Date.now() - first.at < SECOND_MS;
  const keys = isSecond ? `${first?.key} ${event.key}` : event.key;
  first = event.key === 'g' && !isSecond ? { key: 'g', at: Date.now() } : undefined;
  const found = [...active].flatMap(({ current }) => current).findLast((each) => each.keys === keys);
  if (found === undefined) return;
  event.preventDefault();
  found.run();
});

/** The shortcuts of a component while it is drawn. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  const current = useRef(shortcuts);
  current.current = shortcuts;
  useEffect(() => {
    active.add(current);
    return () => void active.delete(current);
  }, []);
}

/** All that work now, for the list of them. */
export function activeShortcuts(): readonly Shortcut[] {
  return [...active].flatMap(({ current }) => current);
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  return target.closest('input:not([type=checkbox]), textarea, select, [contenteditable], .xterm') !== null;
}
