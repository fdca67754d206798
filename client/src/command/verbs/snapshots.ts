// `sandbox snapshot`, `snapshots` and `fork`.
import { formatAge } from '../terminal.ts';
import { toCount, toLabelChanges, toPort } from '../units.ts';
import type { Verb } from '../verb.ts';

export const snapshot: Verb = {
  name: 'snapshot',
  operands: '<sandbox>',
  completes: ['sandbox'],
  summary: 'Take a snapshot of a sandbox, which keeps running',
  flags: {},
  example: 'sandbox snapshot $ID',
  async run({ operands: [id = ''] }, { client, terminal, signal, isJson }) {
    using progress = terminal.progress('saving');
    const taken = await client.sandboxes.get(id).snapshot({ signal });
    progress[Symbol.dispose]();
    if (isJson) terminal.printJson(await taken.info({ signal }));
    else terminal.print(taken.id);
    return 0;
  },
};

export const snapshots: Verb = {
  name: 'snapshots',
  operands: '',
  summary: 'List the snapshots',
  flags: { quiet: { type: 'boolean', short: 'q', help: 'print ids only' } },
  example: 'sandbox snapshots',
  async run(input, { client, terminal, signal, isJson }) {
    const found = await client.snapshots.list({ signal });
    if (isJson) terminal.printJson(found);
    else if (input.isSet('quiet')) for (const { id } of found) terminal.print(id);
    else
      terminal.table(
        ['SNAPSHOT', 'OF', 'CPUS', 'MEMORY', 'CREATED'],
        found.map(({ id, source_id, vcpus, memory_mib, created_at }) => [
          id,
          source_id,
          String(vcpus),
          `${memory_mib} MiB`,
          formatAge(created_at),
        ]),
      );
    return 0;
  },
};

export const fork: Verb = {
  name: 'fork',
  operands: '<snapshot|sandbox>',
  completes: ['id'],
  summary: 'Fork a snapshot or a running sandbox',
  details:
    'The new sandboxes continue from the state in the snapshot. For a sandbox, a temporary snapshot is taken and removed.',
  flags: {
    number: { type: 'string', short: 'n', placeholder: 'count', help: 'number of forks; default: 1' },
    publish: {
      type: 'string',
      short: 'p',
      multiple: true,
      placeholder: 'port:port',
      help: 'publish a port: host port, port in the fork; for a single fork',
    },
    name: { type: 'string', placeholder: 'name', help: 'name of the fork; for a single fork' },
    label: {
      type: 'string',
      short: 'l',
      multiple: true,
      placeholder: 'key=value|key-',
      help: 'set a label of the forks; key- removes an inherited one',
    },
  },
  example: 'sandbox fork -n 3 $ID',
  async run({ operands: [id = ''], text, texts }, { client, terminal, signal, isJson }) {
    const publish = texts('publish').map(toPort);
    const count = toCount('number', text('number') ?? '1');
    using progress = terminal.progress('forking');
    const isSnapshot = id.startsWith('snap_');
    const source = isSnapshot
      ? client.snapshots.get(id)
      : await client.sandboxes.get(id).snapshot({ signal });
    try {
      const [name, labels] = [text('name'), texts('label')];
      const forks = await source.fork({
        count,
        ...(publish.length > 0 && { publish }),
        ...(name !== undefined && { name }),
        ...(labels.length > 0 && { labels: toLabelChanges(labels) }),
        signal,
      });
      progress[Symbol.dispose]();
      if (isJson) terminal.printJson(await Promise.all(forks.map((each) => each.info({ signal }))));
      else for (const each of forks) terminal.print(each.id);
      return 0;
    } finally {
      if (!isSnapshot) await source[Symbol.asyncDispose]();
    }
  },
};
