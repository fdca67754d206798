// The page that is shown, by its address. What would be lost by another one is asked about first.
import { Store } from '../live/store.ts';
import { leave, unsaved } from './leaving.ts';
import { parseRoute, type Route, toHash } from './route.ts';

export const route = new Store<Route>(parseRoute(location.hash));
/** The address of what is shown. */
let shown = location.hash;

window.addEventListener('hashchange', () => {
  const wanted = location.hash;
  if (wanted === shown) return;
  const next = parseRoute(wanted);
  if (unsaved.value?.keeps(next) === false) {
    history.replaceState(null, '', shown === '' ? '#/' : shown);
    leave(() => {
      location.hash = wanted;
    });
    return;
  }
  shown = wanted;
  route.set(next);
});

export function navigate(path: readonly string[], query?: URLSearchParams): void {
  location.hash = toHash(path, query);
}

/** Changes the query of this page without a new entry in the history. */
export function replaceQuery(query: URLSearchParams): void {
  history.replaceState(null, '', toHash(route.value.path, query));
  shown = location.hash;
  route.set(parseRoute(location.hash));
}
