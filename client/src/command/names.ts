// Names of sandboxes and snapshots in place of ids: operands of a verb are resolved before it runs.
import { UsageError } from '@sandboxd/api/command-line';
import type { Client } from '../client.ts';
import { NotFoundError } from '../errors.ts';
import type { OperandKind, Verb } from './verb.ts';

/** Ids contain an underscore, which names do not, so an id is never taken for a name. */
const NAME = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?';
const WORD = new RegExp(`^${NAME}$`);
const PLACE = new RegExp(`^(${NAME}):(/.*)$`, 's');

/** Ids for the names among the operands of `verb`. NotFoundError, UsageError for a name of several. */
export async function resolveOperands(
  { completes = [], commandFrom = Number.POSITIVE_INFINITY }: Pick<Verb, 'completes' | 'commandFrom'>,
  operands: readonly string[],
  client: () => Client,
  signal: AbortSignal,
): Promise<readonly string[]> {
  return Promise.all(
    operands.map((word, at) => {
      const kind = completes[Math.min(at, completes.length - 1)];
      return at >= commandFrom ? word : resolveWord(kind, word, client, signal);
    }),
  );
}

/** An id for a name, if a word of this kind is one. */
export async function resolveWord(
  kind: OperandKind | undefined,
  word: string,
  client: () => Client,
  signal: AbortSignal,
): Promise<string> {
  if ((kind === 'sandbox' || kind === 'snapshot' || kind === 'id') && WORD.test(word))
    return findId(client(), word, signal, kind);
  if (kind !== 'place' && kind !== 'id') return word;
  const [, name, path] = PLACE.exec(word) ?? [];
  return name === undefined ? word : `${await findId(client(), name, signal, 'sandbox')}:${path}`;
}

async function findId(
  client: Client,
  name: string,
  signal: AbortSignal,
  kind: 'sandbox' | 'snapshot' | 'id',
): Promise<string> {
  const [sandboxes, snapshots] = await Promise.all([
    kind === 'snapshot' ? [] : client.sandboxes.list({ name, signal }),
    kind === 'sandbox' ? [] : client.snapshots.list({ name, signal }),
  ]);
  // A key without a tenant sees those of all tenants.
  const ids = [...sandboxes, ...snapshots].filter((each) => each.name === name).map(({ id }) => id);
  const [id] = ids;
  const noun = kind === 'id' ? 'sandbox or snapshot' : kind;
  if (id === undefined) throw new NotFoundError(404, `there is no ${noun} with the name ${name}`);
  if (ids.length === 1) return id;
  const several = { sandbox: 'sandboxes', snapshot: 'snapshots', id: 'sandboxes or snapshots' }[kind];
  throw new UsageError(`several ${several} have the name ${name}: ${ids.slice(0, 5).join(', ')}; give an id`);
}
