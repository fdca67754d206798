// Which host takes a snapshot or an image that is imported. It needs no place, as nothing runs yet: the host with the
// fewest places takes it, and its id or digest leads there afterwards. Templates are built where their names lead.
import { createHash } from 'node:crypto';
import { AppError } from '../../lib/errors.ts';
import type { FleetMap, Host } from '../catalogue.ts';

/** `key`: of retries, which come to the same host while the fleet is the same. AppError exhausted. */
export function chooseImportHost(map: FleetMap, key: string | undefined): Host {
  const all = map.hosts();
  const ready = all.filter(({ isReady }) => isReady);
  return choose(ready.length > 0 ? ready : all, key === undefined ? byPlaces(map) : byDigest(key));
}

/** The same of the same hosts, for each key. AppError exhausted. */
export function chooseByKey(hosts: readonly Host[], key: string): Host {
  return choose(hosts, byDigest(key));
}

function choose(candidates: readonly Host[], rank: (name: string) => number): Host {
  // Each is ranked once: clients without a key come here, too.
  const ranked = candidates.map((host) => ({ host, name: host.name, rank: rank(host.name) }));
  const [chosen] = ranked.toSorted((a, b) => a.rank - b.rank || (a.name < b.name ? -1 : 1));
  if (chosen !== undefined) return chosen.host;
  throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
}

function byPlaces(map: FleetMap): (name: string) => number {
  const counts = new Map<string, number>();
  for (const { host = '' } of map.all()) counts.set(host, (counts.get(host) ?? 0) + 1);
  return (name) => counts.get(name) ?? 0;
}

/** Another host joining or leaving moves few keys. */
function byDigest(key: string): (name: string) => number {
  // A key may be as long as a head can be.
  const short = createHash('sha256').update(key).digest('base64');
  return (name) => createHash('sha256').update(`${name} ${short}`).digest().readUInt32BE(0);
}
