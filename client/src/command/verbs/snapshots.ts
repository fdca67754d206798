// `sandbox snapshot`, `snapshots`, `fork` and `rollback`.
import { formatAge } from '../terminal.ts';
import { toCount, toEnvironment, toLabelChanges, toLabels, toPort } from '../units.ts';
import type { Verb } from '../verb.ts';

export const snapshot: Verb = {
  name: 'snapshot',
  operands: '<sandbox>',
  completes: ['sandbox'],
  summary: 'Take a snapshot of a sandbox, which keeps running',
  flags: {
    name: { type: 'string', placeholder: 'name', help: 'name, unique among the snapshots' },
    label: {
      type: 'string',
      short: 'l',
      multiple: true,
      placeholder: 'key=value',
      help: 'label, to find it by',
    },
    comment: { type: 'string', placeholder: 'text', help: 'comment' },
    expires: { type: 'string', placeholder: 'seconds', help: 'delete it after this time' },
    'idempotency-key': {
      type: 'string',
      placeholder: 'key',
      help: 'with the key of an earlier snapshot: print that one, for a day',
    },
  },
  example: 'sandbox snapshot $ID',
  async run({ operands: [id = ''], text, texts }, { client, terminal, signal, isJson }) {
    const [name, comment, idempotencyKey] = ['name', 'comment', 'idempotency-key'].map(text);
    const labels = toLabels(texts('label'));
    const expires = text('expires');
    const about = {
      ...(name !== undefined && { name }),
      ...(comment !== undefined && { comment }),
      ...(Object.keys(labels).length > 0 && { labels }),
      ...(expires !== undefined && { expires_s: toCount('expires', expires) }),
    };
    using progress = terminal.progress('saving');
    const taken = await client.sandboxes.get(id).snapshot({ ...about, signal, idempotencyKey });
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
  flags: {
    quiet: { type: 'boolean', short: 'q', help: 'print ids only' },
    label: {
      type: 'string',
      short: 'l',
      multiple: true,
      placeholder: 'key=value',
      help: 'only those with this label, or with the key alone',
    },
    name: { type: 'string', placeholder: 'name', help: 'only the one of this name' },
  },
  example: 'sandbox snapshots',
  async run(input, { client, terminal, signal, isJson }) {
    const labels = input.texts('label');
    const found = await client.snapshots.list({ labels, name: input.text('name'), signal });
    if (isJson) terminal.printJson(found);
    else if (input.isSet('quiet')) for (const { id } of found) terminal.print(id);
    else
      terminal.table(
        ['SNAPSHOT', 'OF', 'CPUS', 'MEMORY', 'CREATED', 'NAME', 'LABELS'],
        found.map(({ id, source_id, vcpus, memory_mib, created_at, name, labels }) => [
          id,
          source_id,
          String(vcpus),
          `${memory_mib} MiB`,
          formatAge(created_at),
          name ?? '',
          formatLabels(labels),
        ]),
      );
    return 0;
  },
};

export const fork: Verb = {
  name: 'fork',
  operands: '<snapshot|sandbox>',
  completes: ['id'],
  summary: 'Fork a snapshot or a sandbox',
  details:
    'The new sandboxes continue from the state in the snapshot, or from that of the sandbox now, which goes on.',
  flags: {
    number: {
      type: 'string',
      short: 'n',
      placeholder: 'count',
      help: 'number of forks; default: 1, or one for each name',
    },
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
      help: 'with the key of an earlier fork: print its forks, for a day',
    },
    name: {
      type: 'string',
      multiple: true,
      placeholder: 'name',
      help: 'name of the fork; several, one for each fork',
    },
    label: {
      type: 'string',
      short: 'l',
      multiple: true,
      placeholder: 'key=value|key-',
      help: 'set a label of the forks; key- removes an inherited one',
    },
    env: {
      type: 'string',
      short: 'e',
      multiple: true,
      placeholder: 'NAME=value',
      help: 'set a variable of all commands in the forks; NAME alone passes the own one',
    },
  },
  example: 'sandbox fork -n 3 $ID',
  async run({ operands: [id = ''], text, texts }, { client, terminal, signal, isJson }) {
    const publish = texts('publish').map(toPort);
    const [names, labels] = [texts('name'), texts('label')];
    const [name] = names;
    const env = toEnvironment(texts('env'));
    const hasSeveral = names.length > 1;
    const number = text('number') ?? (hasSeveral ? String(names.length) : '1');
    using progress = terminal.progress('forking');
    const source = id.startsWith('snap_') ? client.snapshots.get(id) : client.sandboxes.get(id);
    const forks = await source.fork({
      count: toCount('number', number),
      ...(publish.length > 0 && { publish }),
      ...(hasSeveral ? { children: names.map((each) => ({ name: each })) } : name !== undefined && { name }),
      ...(labels.length > 0 && { labels: toLabelChanges(labels) }),
      ...(Object.keys(env).length > 0 && { env }),
      signal,
      idempotencyKey: text('idempotency-key'),
    });
    progress[Symbol.dispose]();
    if (isJson) terminal.printJson(await Promise.all(forks.map((each) => each.info({ signal }))));
    else for (const each of forks) terminal.print(each.id);
    return 0;
  },
};

export const rollback: Verb = {
  name: 'rollback',
  operands: '<sandbox> <snapshot>',
  completes: ['sandbox', 'id'],
  summary: 'Let a sandbox go back to a snapshot',
  details:
    'The snapshot must be of the sandbox, or one that it comes from. The sandbox gets its memory and disk; what runs ' +
    'in it ends. Id, name, addresses and ports stay.',
  flags: {},
  example: 'sandbox rollback $ID $SNAPSHOT',
  async run({ operands: [id = '', snapshotId = ''] }, { client, terminal, signal, isJson }) {
    using progress = terminal.progress('rolling back');
    const info = await client.sandboxes.get(id).rollback(snapshotId, { signal });
    progress[Symbol.dispose]();
    if (isJson) terminal.printJson(info);
    else terminal.print(info.id);
    return 0;
  },
};

/** A column of labels. */
function formatLabels(labels: Readonly<Record<string, string>> = {}): string {
  return Object.entries(labels)
    .map(([key, value]) => (value === '' ? key : `${key}=${value}`))
    .join(',');
}
