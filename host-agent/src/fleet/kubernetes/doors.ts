// Where gateways reach what a host serves besides its REST interface, as its Node says it.
import type { Doors } from '../catalogue.ts';
import type { FleetSeal } from '../seal.ts';

const INGRESS = 'sandboxd.dev/ingress-url';
const E2B = 'sandboxd.dev/e2b-url';
/** Apart from the seal of the address, so that hosts and gateways of an earlier version read that. */
const DOORS_SEAL = 'sandboxd.dev/doors-seal';

/** What a host does not serve is an empty text, so that it replaces an earlier address. */
export function toDoorAnnotations(name: string, doors: Doors, seal: FleetSeal): Record<string, string> {
  const [ingress, e2b] = [doors.ingress?.href ?? '', doors.e2b?.href ?? ''];
  return { [INGRESS]: ingress, [E2B]: e2b, [DOORS_SEAL]: seal.make('doors', name, ingress, e2b) };
}

/** None of a node whose annotations no host wrote. */
export function readDoors(
  name: string,
  annotations: Readonly<Record<string, string>>,
  seal: FleetSeal,
): Doors {
  const { [INGRESS]: ingress = '', [E2B]: e2b = '', [DOORS_SEAL]: proof = '' } = annotations;
  if (!seal.isOf(proof, 'doors', name, ingress, e2b)) return {};
  return { ingress: toUrl(ingress), e2b: toUrl(e2b) };
}

function toUrl(text: string): URL | undefined {
  return /^https?:/.test(text) && URL.canParse(text) ? new URL(text) : undefined;
}
