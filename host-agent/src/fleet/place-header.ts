// The header by which a gateway tells a host which places a request has:
// `<place|held> <namespace> <id>=<uid of the pod>,… <seal>`.
import { AppError } from '../lib/errors.ts';
import { isId } from '../lib/ids.ts';
import { toNamespace } from './kubernetes/pods.ts';
import type { FleetSeal } from './seal.ts';

export type SealedPlace = { readonly id: string; readonly uid: string };
export type PlaceHeader = {
  /** `held`: by a sandbox that exists; the request gets nothing new. */
  readonly kind: 'place' | 'held';
  readonly namespace: string;
  readonly places: readonly SealedPlace[];
};

const MAX_PLACES = 1024;

export function writePlaceHeader({ kind, namespace, places }: PlaceHeader, seal: FleetSeal): string {
  const list = places.map(({ id, uid }) => `${id}=${uid}`).join(',');
  return `${kind} ${namespace} ${list} ${seal.make(kind, namespace, list)}`;
}

/** Undefined for a header that no gateway of this fleet wrote. */
export function readPlaceHeader(text: string, seal: FleetSeal): PlaceHeader | undefined {
  const [kind, namespace = '', list = '', proof = '', ...rest] = text.split(' ');
  if ((kind !== 'place' && kind !== 'held') || rest.length > 0) return undefined;
  if (!seal.isOf(proof, kind, namespace, list)) return undefined;
  const places = list.split(',').map((each) => {
    const [id = '', uid = ''] = each.split('=');
    return { id, uid };
  });
  const isValid = places.length <= MAX_PLACES && places.every(({ id, uid }) => isId('sbx', id) && uid !== '');
  return isValid ? { kind, namespace, places } : undefined;
}

/**
 * Of a request of this tenant that makes `count` sandboxes. `base`: the namespace of the fleet. AppError conflict
 * without a header or with another number of places, forbidden for one that is not for this tenant.
 */
export function readPlaces(
  {
    header,
    tenant,
    count,
  }: { readonly header?: string | undefined; readonly tenant?: string | undefined; readonly count: number },
  { seal, base }: { readonly seal: FleetSeal; readonly base: string },
): PlaceHeader {
  if (header === undefined)
    throw new AppError(
      'conflict',
      'this host is part of a fleet, whose gateway places sandboxes; send the request to it',
    );
  const read = readPlaceHeader(header, seal);
  if (read === undefined)
    throw new AppError('forbidden', 'the place of this request is not of a gateway of this fleet');
  if (read.namespace !== toNamespace(base, tenant))
    throw new AppError('forbidden', 'the place of this request is another tenant’s');
  if (read.places.length !== count)
    throw new AppError(
      'conflict',
      `the request makes ${count} sandboxes, and has ${read.places.length} places`,
    );
  return read;
}
