// Names of sandboxes in place of ids: operands of a verb are resolved before it runs.
import { UsageError } from '@sandboxd/api/command-line';
import type { Client } from '../client.ts';
import { NotFoundError } from '../errors.ts';
import type { OperandKind, Verb } from './verb.ts';

/** Ids contain an underscore, which names do not, so an id is never taken for a name. */
const NAME = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?';
const WORD = new RegExp(`^${NAME}$`);
const PLACE = new RegExp(`^(${NAME}):(/.*)$`, 's');

/** Ids for the names among the operands of `verb`. NotFoundError, UsageError for a name of several sandboxes. */
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
  if ((kind === 'sandbox' || kind === 'id') && WORD.test(word)) return findId(client(), word, signal);
  if (kind !== 'place' && kind !== 'id') return word;
  const [, name, path] = PLACE.exec(word) ?? [];
  return name === undefined ? word : `${await findId(client(), name, signal)}:${path}`;
}

async function findId(client: Client, name: string, signal: AbortSignal): Promise<string> {
  const listed = await client.sandboxes.list({ name, signal });
  // A key without a tenant sees the sandboxes of all tenants.
  const ids = listed.filter((each) => each.name === name).map(({ id }) => id);
  const [id] = ids;
  if (id === undefined) throw new NotFoundError(404, `there is no sandbox with the name ${name}`);
  if (ids.length === 1) return id;
  throw new UsageError(`several sandboxes have the name ${name}: ${ids.slice(0, 5).join(', ')}; give an id`);
}
