// `sandbox secret`: stored secrets. A value is read from a file, standard input or a prompt: arguments of programs are
// seen by other users of a machine.
import { readFile } from 'node:fs/promises';
import { type Input, UsageError } from '@sandboxd/api/command-line';
import { suggest } from '@sandboxd/api/suggest';
import type { SecretInfo, SecretToStore } from '../../contract.ts';
import { readLine } from '../read-line.ts';
import type { Session, Verb } from '../verb.ts';

const ACTIONS = ['set', 'ls', 'rm'] as const;
const KINDS = ['credential', 'file', 'command'] as const;

export const secret: Verb = {
  name: 'secret',
  operands: '<set|ls|rm> [name…]',
  completes: [[...ACTIONS], []],
  summary: 'Store, list and remove secrets, which guests can use and never have',
  details:
    'set reads the value from standard input, without echo from a terminal, or from --file; a line end at its end is ' +
    'not part of it. To change the hosts of a secret, set it again.',
  flags: {
    host: {
      type: 'string',
      multiple: true,
      placeholder: 'name',
      help: 'a host that gets the value, such as api.github.com',
    },
    file: { type: 'string', short: 'f', placeholder: 'path', help: 'read the value from this file' },
    source: {
      type: 'string',
      placeholder: 'kind:name',
      help: 'the daemon reads the value: credential:, file: or command: and a name that its operator gave',
    },
    quiet: { type: 'boolean', short: 'q', help: 'print names only' },
  },
  example: 'sandbox secret set github --host api.github.com <token.txt',
  async run(input, session) {
    const [action = '', ...names] = input.operands;
    if (action === 'set') return await set(names, input, session);
    if (action === 'ls') return await list(names, input, session);
    if (action === 'rm') return await remove(names, session);
    throw new UsageError(
      `there is no ${JSON.stringify(action)}${suggest(action, ACTIONS) || `; known are ${ACTIONS.join(', ')}`}`,
    );
  },
};

async function set(names: readonly string[], input: Input, session: Session): Promise<number> {
  const { client, terminal, signal, isJson } = session;
  const [name, more] = names;
  if (name === undefined || more !== undefined)
    throw new UsageError('one name is needed: sandbox secret set <name> --host <host>');
  const hosts = input.texts('host');
  if (hosts.length === 0)
    throw new UsageError('a flag is missing: --host <name>, a host that gets the value');
  const content = await readContent(input, session);
  const stored = await client.secrets.set(name, { hosts, ...content }, { signal });
  if (isJson) terminal.printJson(stored);
  else terminal.print(stored.name);
  return 0;
}

async function readContent(
  input: Input,
  { terminal }: Session,
): Promise<Pick<SecretToStore, 'value' | 'source'>> {
  const [file, source] = [input.text('file'), input.text('source')];
  if (file !== undefined && source !== undefined) throw new UsageError('--file excludes --source');
  if (source !== undefined) return { source: toSource(source) };
  const text =
    file === undefined
      ? await readLine(terminal, 'the value, which is not shown:')
      : await readFile(file, 'latin1');
  return { value: text.replace(/\r?\n$/, '') };
}

function toSource(text: string): NonNullable<SecretToStore['source']> {
  const [, kind, name] = /^([a-z]+):(.+)$/.exec(text) ?? [];
  const known = KINDS.find((each) => each === kind);
  if (known === undefined || name === undefined)
    throw new UsageError(
      `--source ${JSON.stringify(text)} is not one of ${KINDS.map((each) => `${each}:name`).join(', ')}`,
    );
  return { [known]: name } as NonNullable<SecretToStore['source']>;
}

async function list(names: readonly string[], input: Input, session: Session): Promise<number> {
  const { client, terminal, signal, isJson } = session;
  if (names.length > 0) throw new UsageError('sandbox secret ls takes no name');
  const secrets = await client.secrets.list({ signal });
  if (isJson) terminal.printJson({ secrets });
  else if (input.isSet('quiet')) for (const { name } of secrets) terminal.print(name);
  else
    terminal.table(['NAME', 'HOSTS', 'VALUE', 'CHANGED', 'USED BY', 'USES', 'LAST USED'], secrets.map(toRow));
  return 0;
}

function toRow(info: SecretInfo): string[] {
  const { name, hosts, digest, source, changed_at, used_by, uses = 0, last_used_at = 'never' } = info;
  const [from = ''] = Object.entries(source ?? {}).map(([kind, each]) => `${kind}:${each}`);
  return [
    name,
    hosts.join(','),
    digest ?? from,
    changed_at,
    String(used_by.length),
    String(uses),
    last_used_at,
  ];
}

async function remove(
  names: readonly string[],
  { client, terminal, signal, isJson }: Session,
): Promise<number> {
  if (names.length === 0) throw new UsageError('a name is missing: sandbox secret rm <name…>');
  for (const name of names) {
    await client.secrets.delete(name, { signal });
    if (isJson) terminal.printJson({ deleted: name });
    else terminal.print(name);
  }
  return 0;
}
