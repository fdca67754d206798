// `sandboxd secrets …`: stored secrets of all tenants, beside a running daemon or before the first one. A value is read
// from a file or standard input: arguments of programs are seen by other users of a machine.
import { createReadStream } from 'node:fs';
import { checkBody, MAX_SECRET_CHARS, secretName, storeSecret } from '@sandboxd/api';
import { type Input, UsageError } from '@sandboxd/api/command-line';
import { pino } from 'pino';
import { AppError, toError } from '../../lib/errors.ts';
import { Sealer } from '../../lib/seal.ts';
import { isSealKeyOfDaemon, type SecretInfo, SecretSources, SecretStore } from '../../secrets/index.ts';
import type { Store } from '../../store/store.ts';
import type { Command, Group } from '../command.ts';
import { checkName } from '../keys/index.ts';
import { loadSharedConfig, SHARED_FLAGS, withStore } from '../shared-config.ts';

/** With a line end. */
const MAX_BYTES = MAX_SECRET_CHARS + 2;
const NO_HOST = 'no host that the settings allow its source';

type Target = { readonly scope: string; readonly name: string };

const set: Command = {
  name: 'set',
  operands: '<[tenant/]name>',
  summary: 'store a secret, or replace its value and hosts; the value is read from standard input or --file',
  flags: {
    ...SHARED_FLAGS,
    host: {
      type: 'string',
      multiple: true,
      placeholder: 'name',
      help: 'a host that gets the value, such as api.github.com; repeatable',
    },
    file: { type: 'string', placeholder: 'path', help: 'read the value from this file' },
  },
  run: async (input, signal) => {
    const target = parseTarget(input.operands[0] ?? '');
    const value = await readValue(input.text('file'), signal);
    const checked = checkBody(storeSecret, { value, hosts: [...input.texts('host')] });
    // Its message shows no value.
    if (!checked.isValid) throw new UsageError(`the secret makes no sense: ${checked.problem}`);
    const { hosts } = checked.value;
    await withSecrets(input, async (secrets) => {
      const { isNew } = await secrets.put(target.scope, target.name, { value, hosts });
      print(`${toText(target)}: ${isNew ? 'stored' : 'changed'}`);
    });
  },
};

const list: Command = {
  name: 'list',
  operands: '',
  summary: 'list the stored secrets of all tenants, without their values',
  flags: { ...SHARED_FLAGS, json: { type: 'boolean', help: 'print a JSON array' } },
  run: async (input) => {
    const all = await withSecrets(input, (secrets) =>
      secrets.scopes().flatMap((scope) => secrets.list(scope).map((each) => toShown(scope, each))),
    );
    if (input.isSet('json')) print(JSON.stringify(all, null, 2));
    else
      for (const { name, tenant, hosts, value, last_used_at } of all)
        print(
          `${toText({ scope: tenant ?? '', name })}: ${value}, for ${hosts.join(', ') || NO_HOST}, ` +
            (last_used_at === undefined ? 'never used' : `used last at ${last_used_at}`),
        );
  },
};

const remove: Command = {
  name: 'remove',
  operands: '<[tenant/]name>…',
  summary: 'remove stored secrets; sandboxes that use them cannot any more',
  flags: SHARED_FLAGS,
  run: async (input) => {
    const targets = input.operands.map(parseTarget);
    await withSecrets(input, async (secrets) => {
      for (const target of targets) {
        await secrets.remove(target.scope, target.name);
        print(`${toText(target)}: removed`);
      }
    });
  },
};

export const secrets: Group = {
  name: 'secrets',
  summary: 'Stored secrets of all tenants. A running daemon has changes within two seconds.',
  commands: [set, list, remove],
};

/** AppError conflict if the daemon seals with a key that this command does not have. */
function withSecrets<T>(input: Input, use: (secrets: SecretStore) => T | Promise<T>): Promise<T> {
  const by = process.env.SUDO_USER ?? `uid ${process.getuid?.()}`;
  const { keyFile, sources } = loadSharedConfig(input).secrets;
  return withStore(input, async (store, dataDir) => {
    const sealer = new Sealer({ dataDir, keyFile, credentialsDir: sources.credentialsDir });
    assertSameKey(store, sealer);
    const secrets = new SecretStore({
      ...{ store, sealer, by },
      // Those of the daemon's own flags are not known here.
      sources: new SecretSources(sources),
      log: pino({ level: 'silent' }),
    });
    try {
      return await use(secrets);
    } finally {
      await secrets.close();
      sealer.close();
    }
  });
}

function assertSameKey(store: Store, sealer: Sealer): void {
  if (isSealKeyOfDaemon(store, sealer)) return;
  throw new AppError(
    'conflict',
    'the daemon seals secrets with another key, such as a credential of systemd; name its file in the settings ' +
      '(secrets_key_file), or use `sandbox secret`',
  );
}

/** Throws UsageError. */
function parseTarget(text: string): Target {
  const [, tenant, name = ''] = /^(?:([^/]*)\/)?([^/]*)$/.exec(text) ?? [];
  if (!secretName.safeParse(name).success)
    throw new UsageError(
      'the name of a secret must be [tenant/]name, of letters, digits, dots, dashes and underscores',
    );
  return { scope: tenant === undefined ? '' : checkName(tenant, 'tenant'), name };
}

function toText({ scope, name }: Target): string {
  return scope === '' ? name : `${scope}/${name}`;
}

/** Without one line end. Throws UsageError. */
async function readValue(path: string | undefined, signal: AbortSignal): Promise<string> {
  if (path === undefined && process.stdin.isTTY)
    throw new UsageError('the value is read from standard input, which is a terminal; use a pipe or --file');
  const source = path === undefined ? process.stdin : createReadStream(path);
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of source as AsyncIterable<Buffer>) {
      signal.throwIfAborted();
      size += part.length;
      parts.push(part);
      if (size > MAX_BYTES) throw new UsageError(`the value has more than ${MAX_SECRET_CHARS} characters`);
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`the value cannot be read: ${toError(error).message}`);
  }
  return Buffer.concat(parts)
    .toString('latin1')
    .replace(/\r?\n$/, '');
}

function toShown(scope: string, { name, hosts, source, digest, changedAtMs, use }: SecretInfo) {
  const [from = ''] = Object.entries(source ?? {}).map(([kind, each]) => `${kind}:${each}`);
  return {
    name,
    ...(scope !== '' && { tenant: scope }),
    hosts,
    value: digest ?? from,
    changed_at: new Date(changedAtMs).toISOString(),
    uses: use?.count ?? 0,
    ...(use && { last_used_at: new Date(use.lastAtMs).toISOString() }),
  };
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
