// `sandbox ps`, `rm` and `inspect`.

import { type Input, UsageError } from '@sandboxd/api/command-line';
import type { SandboxFilter } from '../../contract.ts';
import { ApiError } from '../../errors.ts';
import { resolveWord } from '../names.ts';
import { formatAge } from '../terminal.ts';
import { toCount } from '../units.ts';
import type { Flags, Session, Verb } from '../verb.ts';
import { toPlace } from './files.ts';

/** Which sandboxes; all that are given must match. */
const FILTER_FLAGS = {
  label: {
    type: 'string',
    short: 'l',
    multiple: true,
    placeholder: 'key[=value]',
    help: 'only sandboxes with this label; all that are given must match',
  },
  state: { type: 'string', placeholder: 'state', help: 'only sandboxes in this state, such as failed' },
  name: { type: 'string', placeholder: 'name', help: 'only the sandbox of this name' },
  profile: { type: 'string', placeholder: 'profile', help: 'only sandboxes of this profile' },
  image: {
    type: 'string',
    placeholder: 'image',
    help: 'only sandboxes of this image: a reference, or a digest',
    completes: 'image',
  },
} as const satisfies Flags;

/** Undefined without a filter. UsageError for an empty one, which would match more than was meant. */
function toFilter({ text, texts }: Input): SandboxFilter | undefined {
  const label = texts('label');
  const one = (['state', 'name', 'profile', 'image'] as const).flatMap((flag) => {
    const value = text(flag);
    return value === undefined ? [] : [[flag, value] as const];
  });
  const empty = label.includes('') ? 'label' : one.find(([, value]) => value === '')?.[0];
  if (empty !== undefined) throw new UsageError(`--${empty} must not be empty`);
  if (label.length === 0 && one.length === 0) return undefined;
  return { ...(label.length > 0 && { label }), ...Object.fromEntries(one) };
}

export const ps: Verb = {
  name: 'ps',
  operands: '',
  summary: 'List the sandboxes',
  flags: {
    quiet: { type: 'boolean', short: 'q', help: 'print ids only' },
    ...FILTER_FLAGS,
    limit: { type: 'string', placeholder: 'count', help: 'list at most so many, the oldest' },
  },
  example: 'sandbox ps',
  async run(input, { client, terminal, signal, isJson }) {
    const count = input.text('limit');
    const limit = count === undefined ? undefined : toCount('limit', count);
    const sandboxes = await client.sandboxes.list({ ...toFilter(input), limit, signal });
    if (isJson) terminal.printJson(sandboxes);
    else if (input.isSet('quiet')) for (const { id } of sandboxes) terminal.print(id);
    else
      terminal.table(
        ['SANDBOX', 'NAME', 'STATE', 'FROM', 'CPUS', 'MEMORY', 'CREATED', 'PORTS'],
        sandboxes.map(
          ({
            id,
            name = '',
            state = '',
            profile,
            source_snapshot_id,
            vcpus,
            memory_mib,
            created_at,
            published = [],
          }) => [
            id,
            name,
            state,
            source_snapshot_id ?? profile ?? 'image',
            String(vcpus),
            `${memory_mib} MiB`,
            formatAge(created_at),
            published.map(({ host_port, guest_port }) => `${host_port}→${guest_port}`).join(' '),
          ],
        ),
      );
    return 0;
  },
};

type Failure = { readonly id: string; readonly error: string; readonly code?: string };

export const rm: Verb = {
  name: 'rm',
  operands: '[sandbox|snapshot|sandbox:path…]',
  completes: ['id'],
  resolvesNames: true,
  summary: 'Remove sandboxes and snapshots, or files of a sandbox',
  details: 'With filters, the sandboxes that match all of them are removed.',
  flags: {
    all: { type: 'boolean', short: 'a', help: 'remove every sandbox' },
    recursive: { type: 'boolean', short: 'r', help: 'of a path: remove a directory with everything in it' },
    ...FILTER_FLAGS,
  },
  example: 'sandbox rm $ID',
  async run(input, session) {
    const { operands, isSet } = input;
    const { client, terminal, signal, isJson } = session;
    const filter = toFilter(input);
    if (filter !== undefined) {
      if (operands.length > 0 || isSet('all') || isSet('recursive'))
        throw new UsageError(
          'filters choose the sandboxes: give no other arguments, and no --all or --recursive',
        );
      const { deleted, failed } = await client.sandboxes.deleteAll({ ...filter, signal });
      return report(deleted, failed, session);
    }
    if (operands.length === 0 && !isSet('all'))
      throw new UsageError('an argument is missing: sandbox rm [sandbox|snapshot|sandbox:path…]');
    const all = isSet('all') ? (await client.sandboxes.list({ signal })).map(({ id }) => id) : [];
    const ids = [...new Set([...operands, ...all])];
    const deleted: string[] = [];
    const failed: Failure[] = [];
    for (const word of ids) {
      let id = word;
      try {
        id = await resolveWord('id', word, () => client, signal);
        const place = toPlace(id);
        if (place !== undefined) {
          const recursive = isSet('recursive');
          await client.sandboxes.get(place.id).files.remove(place.path, { recursive, signal });
        } else {
          const kind = id.startsWith('snap_') ? client.snapshots : client.sandboxes;
          await kind.get(id).delete({ signal });
        }
        deleted.push(id);
        if (!isJson) terminal.print(id);
      } catch (error) {
        signal.throwIfAborted();
        const { message } = error as Error;
        const { code } = error instanceof ApiError ? error : {};
        failed.push({ id, error: message, ...(code && { code }) });
        if (!isJson) terminal.complain(message);
      }
    }
    if (isJson) terminal.printJson({ removed: deleted.length, deleted, failed });
    return failed.length === 0 ? 0 : 1;
  },
};

function report(
  deleted: readonly string[],
  failed: readonly Failure[],
  { terminal, isJson }: Pick<Session, 'terminal' | 'isJson'>,
): number {
  if (isJson) terminal.printJson({ removed: deleted.length, deleted, failed });
  else {
    for (const id of deleted) terminal.print(id);
    for (const { id, error } of failed) terminal.complain(`${id}: ${error}`);
  }
  return failed.length === 0 ? 0 : 1;
}

export const inspect: Verb = {
  name: 'inspect',
  operands: '<sandbox|snapshot…>',
  completes: ['id'],
  summary: 'Show details of sandboxes and snapshots as JSON',
  flags: {},
  example: 'sandbox inspect $ID',
  async run({ operands }, { client, terminal, signal }) {
    const found = await Promise.all(
      operands.map((id) =>
        id.startsWith('snap_')
          ? client.snapshots.get(id).info({ signal })
          : client.sandboxes.get(id).info({ signal }),
      ),
    );
    terminal.printJson(found);
    return 0;
  },
};
