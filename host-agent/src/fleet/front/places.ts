// Where a sandbox is.
import { AppError } from '../../lib/errors.ts';
import { isId } from '../../lib/ids.ts';
import type { FleetMap, Host, Place } from '../catalogue.ts';

/** Another gateway may have made it just now. */
const UNKNOWN_WAIT_MS = 250;

/** AppError not_found; upstream when its host left the fleet; exhausted when the map may be too old to know it. */
export async function findPlace(
  map: FleetMap,
  id: string,
): Promise<{ readonly host: Host; readonly place: Place }> {
  const missing = new AppError('not_found', `sandbox ${id.slice(0, 100)} does not exist`);
  if (!isId('sbx', id)) throw missing;
  const place = map.find(id) ?? (map.isCurrent ? await map.settle(id, UNKNOWN_WAIT_MS) : undefined);
  if (place === undefined) {
    if (map.isCurrent) throw missing;
    const message = `sandbox ${id} is not known here, and the engine of the fleet does not answer`;
    throw new AppError('exhausted', message, { retryAfterS: 5 });
  }
  if (place.isMoving === true)
    throw new AppError('exhausted', `sandbox ${id} moves to another host; try again`, { retryAfterS: 1 });
  const host = place.host === undefined ? undefined : map.host(place.host);
  if (host !== undefined) return { host, place };
  if (place.host === undefined) throw missing;
  throw new AppError('upstream', `the host ${place.host} of the sandbox left the fleet`);
}
