// Sandboxes that go on at a host though their place is gone, as its Node names them: gateways reach them there, and
// make each a place again.
import { MAX_MEMORY_MIB, MAX_VCPUS } from '@sandboxd/api';
import { isId } from '../../lib/ids.ts';
import type { Place } from '../catalogue.ts';
import type { FleetSeal } from '../seal.ts';

const UNPLACED = 'sandboxd.dev/unplaced';
const UNPLACED_SEAL = 'sandboxd.dev/unplaced-seal';
/** An annotation is short; the others follow when these have places. */
const MAX_NAMED = 200;

export type Unplaced = Pick<Place, 'id' | 'namespace' | 'vcpus' | 'memoryMib'>;

export function writeUnplaced(all: readonly Unplaced[]): string {
  const named = all.toSorted((a, b) => (a.id < b.id ? -1 : 1)).slice(0, MAX_NAMED);
  return named
    .map(({ id, namespace, ...size }) => `${id}=${namespace}/${size.vcpus}x${size.memoryMib}`)
    .join();
}

export function toUnplacedAnnotations(node: string, text: string, seal: FleetSeal): Record<string, string> {
  return { [UNPLACED]: text, [UNPLACED_SEAL]: seal.make('unplaced', node, text) };
}

export function readUnplacedText(annotations: Readonly<Record<string, string>>): string {
  return annotations[UNPLACED] ?? '';
}

/** None of a node whose annotations no host wrote. */
export function readUnplaced(
  node: string,
  annotations: Readonly<Record<string, string>>,
  seal: FleetSeal,
): readonly Unplaced[] {
  const text = readUnplacedText(annotations);
  if (text === '' || !seal.isOf(annotations[UNPLACED_SEAL] ?? '', 'unplaced', node, text)) return [];
  return text.split(',').flatMap((each) => {
    const [, id = '', namespace = '', cpus, mib] = /^(\w+)=([a-z0-9-]+)\/(\d+)x(\d+)$/.exec(each) ?? [];
    const [vcpus, memoryMib] = [Number(cpus), Number(mib)];
    const isValid = isId('sbx', id) && vcpus >= 1 && vcpus <= MAX_VCPUS && memoryMib <= MAX_MEMORY_MIB;
    return isValid ? [{ id, namespace, vcpus, memoryMib }] : [];
  });
}
