// `sandbox ps`, `rm` and `inspect`.

import { UsageError } from '@sandboxd/api/command-line';
import type { SandboxFilter } from '../../contract.ts';
import { ApiError } from '../../errors.ts';
import { resolveWord } from '../names.ts';
import { formatAge } from '../terminal.ts';
import type { Verb } from '../verb.ts';
import { toPlace } from './files.ts';

export const ps: Verb = {
  name: 'ps',
  operands: '',
  summary: 'List the sandboxes',
  flags: {
    quiet: { type: 'boolean', short: 'q', help: 'print ids only' },
    label: {
      type: 'string',
      short: 'l',
      multiple: true,
      placeholder: 'key[=value]',
      help: 'only sandboxes with this label; all that are given must match',
    },
    state: { type: 'string', placeholder: 'state', help: 'only sandboxes in this state, such as failed' },
  },
  example: 'sandbox ps',
  async run(input, { client, terminal, signal, isJson }) {
    const [label, state] = [input.texts('label'), input.text('state') as SandboxFilter['state']];
    const filter = { ...(label.length > 0 && { label }), ...(state !== undefined && { state }) };
    const sandboxes = await client.sandboxes.list({ ...filter, signal });
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

export const rm: Verb = {
  name: 'rm',
  operands: '[sandbox|snapshot|sandbox:path…]',
  completes: ['id'],
  resolvesNames: true,
  summary: 'Remove sandboxes and snapshots, or files of a sandbox',
  flags: {
    all: { type: 'boolean', short: 'a', help: 'remove every sandbox' },
    recursive: { type: 'boolean', short: 'r', help: 'of a path: remove a directory with everything in it' },
  },
  example: 'sandbox rm $ID',
  async run({ operands, isSet }, { client, terminal, signal, isJson }) {
    if (operands.length === 0 && !isSet('all'))
      throw new UsageError('an argument is missing: sandbox rm [sandbox|snapshot|sandbox:path…]');
    const all = isSet('all') ? (await client.sandboxes.list({ signal })).map(({ id }) => id) : [];
    const ids = [...new Set([...operands, ...all])];
    const failed: { id: string; error: string; code?: string }[] = [];
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
        if (!isJson) terminal.print(id);
      } catch (error) {
        signal.throwIfAborted();
        const { message } = error as Error;
        const { code } = error instanceof ApiError ? error : {};
        failed.push({ id, error: message, ...(code && { code }) });
        if (!isJson) terminal.complain(message);
      }
    }
    if (isJson) terminal.printJson({ removed: ids.length - failed.length, failed });
    return failed.length === 0 ? 0 : 1;
  },
};

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
