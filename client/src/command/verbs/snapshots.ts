// `sandbox snapshot`, `snapshots` and `fork`.
import { UsageError } from '@sandboxd/api/command-line';
import { formatAge } from '../terminal.ts';
import { toCount, toPort } from '../units.ts';
import type { Verb } from '../verb.ts';

export const snapshot: Verb = {
  name: 'snapshot',
  operands: '<sandbox>',
  completes: ['sandbox'],
  summary: 'Take a snapshot of a sandbox, which keeps running',
  flags: {
    'idempotency-key': {
      type: 'string',
      placeholder: 'key',
      help: 'with the key of an earlier snapshot: print that one, for a day',
    },
  },
  example: 'sandbox snapshot $ID',
  async run({ operands: [id = ''], text }, { client, terminal, signal, isJson }) {
    using progress = terminal.progress('saving');
    const idempotencyKey = text('idempotency-key');
    const taken = await client.sandboxes.get(id).snapshot({ signal, idempotencyKey });
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
    'idempotency-key': {
      type: 'string',
      placeholder: 'key',
      help: 'with the key of an earlier fork of the snapshot: print its forks, for a day',
    },
  },
  example: 'sandbox fork -n 3 $ID',
  async run({ operands: [id = ''], text, texts }, { client, terminal, signal, isJson }) {
    const publish = texts('publish').map(toPort);
    const count = toCount('number', text('number') ?? '1');
    const isSnapshot = id.startsWith('snap_');
    const idempotencyKey = text('idempotency-key');
    if (idempotencyKey !== undefined && !isSnapshot)
      throw new UsageError('--idempotency-key is for forks of a snapshot: a sandbox has changed in between');
    using progress = terminal.progress('forking');
    const source = isSnapshot
      ? client.snapshots.get(id)
      : await client.sandboxes.get(id).snapshot({ signal });
    try {
      const options = { ...(publish.length > 0 && { publish }), signal, idempotencyKey };
      const forks = await source.fork({ count, ...options });
      progress[Symbol.dispose]();
      if (isJson) terminal.printJson(await Promise.all(forks.map((each) => each.info({ signal }))));
      else for (const each of forks) terminal.print(each.id);
      return 0;
    } finally {
      if (!isSnapshot) await source[Symbol.asyncDispose]();
    }
  },
};
