// Sandboxes that go on at a host though their place is gone, as its Node names them: gateways reach them there, and
// make each a place again.
import { MAX_MEMORY_MIB, MAX_VCPUS } from '@sandboxd/api';
import { isId } from '../../lib/ids.ts';
import type { Place } from '../catalogue.ts';
import type { FleetSeal } from '../seal.ts';

const UNPLACED = 'sandboxd.dev/unplaced';
const UNPLACED_SEAL = 'sandboxd.dev/unplaced-seal';
/** All annotations of an object have 256 KiB. */
const MAX_TEXT_CHARS = 128 * 1024;
/** The host may have sandboxes without a place that it does not name. */
const MORE = 'more';

/** `leaves`: it waits in the snapshot store for another host; the name of the move. */
export type Unplaced = Pick<Place, 'id' | 'namespace' | 'vcpus' | 'memoryMib'> & {
  readonly leaves?: string | undefined;
};

export type UnplacedList = { readonly named: readonly Unplaced[]; readonly hasMore: boolean };

/** As many as fit: the namespaces have turns, so that none hides another's. */
export function writeUnplaced({ named, hasMore }: UnplacedList): string {
  const written: string[] = [];
  let chars = MORE.length;
  for (const each of inTurns(named)) {
    const text = writeOne(each);
    chars += text.length + 1;
    if (chars > MAX_TEXT_CHARS) return [...written, MORE].join();
    written.push(text);
  }
  return [...written, ...(hasMore ? [MORE] : [])].join();
}

function writeOne({ id, namespace, vcpus, memoryMib, leaves }: Unplaced): string {
  const place = `${id}=${namespace}/${vcpus}x${memoryMib}`;
  // On its own, as readers that do not know it skip it.
  return leaves === undefined ? place : `${place},${id}>${leaves}`;
}

function inTurns(all: readonly Unplaced[]): Unplaced[] {
  const sorted = all.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const turns = new Map<string, number>();
  const withTurn = sorted.map((each) => {
    const turn = turns.get(each.namespace) ?? 0;
    turns.set(each.namespace, turn + 1);
    return { each, turn };
  });
  return withTurn.toSorted((a, b) => a.turn - b.turn).map(({ each }) => each);
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
): UnplacedList {
  const text = readUnplacedText(annotations);
  if (text === '' || !seal.isOf(annotations[UNPLACED_SEAL] ?? '', 'unplaced', node, text))
    return { named: [], hasMore: false };
  const entries = text.split(',');
  const moves = new Map(
    entries.flatMap((each) => {
      const [, id = '', move = ''] = /^(\w+)>([0-9a-f]{8})$/.exec(each) ?? [];
      return id === '' ? [] : [[id, move] as const];
    }),
  );
  const named = entries.flatMap((each) => {
    const [, id = '', namespace = '', cpus, mib] = /^(\w+)=([a-z0-9-]+)\/(\d+)x(\d+)$/.exec(each) ?? [];
    const [vcpus, memoryMib] = [Number(cpus), Number(mib)];
    const isValid = isId('sbx', id) && vcpus >= 1 && vcpus <= MAX_VCPUS && memoryMib <= MAX_MEMORY_MIB;
    const leaves = moves.get(id);
    return isValid ? [{ id, namespace, vcpus, memoryMib, ...(leaves !== undefined && { leaves }) }] : [];
  });
  return { named, hasMore: entries.includes(MORE) };
}
