// What binds a sandbox to secrets: which placeholder stands for which value, and where. A binding is in the record of a
// sandbox or snapshot, and its own value is sealed in it; files that leave the host have neither.
import { randomBytes } from 'node:crypto';
import {
  DEFAULT_SECRET_FORMS,
  MAX_SANDBOX_SECRET_BYTES,
  MAX_SANDBOX_SECRETS,
  type SecretBinding,
  type SecretForm,
  type SecretInjection,
} from '@sandboxd/api';
import { base32nopad } from '@scure/base';
import type { BoundSecret } from '../lib/bound-secret.ts';
import { AppError } from '../lib/errors.ts';
import { intersectPatterns } from '../lib/host-patterns.ts';
import { Sealer } from '../lib/seal.ts';
import type { SecretStore } from './secret-store.ts';

const PLACEHOLDER_BYTES = 16;

export type StoredBinding = {
  readonly name: string;
  /** What its value is sealed with; the same in snapshots and forks. */
  readonly id: string;
  /** Null: the guest has none. */
  readonly placeholder: string | null;
  readonly prefix: string;
  /** The variable with the placeholder. */
  readonly env?: string | undefined;
  readonly hosts: readonly string[];
  readonly ports?: readonly number[] | undefined;
  readonly forms: readonly SecretForm[];
  readonly inject?: SecretInjection | undefined;
  readonly plainHttp?: true | undefined;
  /** A stored secret. */
  readonly use?: { readonly scope: string; readonly name: string };
  /** A value of its own, and its keyed digest. Without either it has none. */
  readonly sealed?: string;
  readonly digest?: string;
};

/** A binding as it leaves the registry. */
export type BindingReference = Omit<StoredBinding, 'use' | 'sealed' | 'digest'>;

/** As the gateway has it. */
export type OpenedSecret = BoundSecret<Buffer>;

/** Null removes one. */
export type BindingChanges = Readonly<Record<string, SecretBinding | null>>;

type BindDeps = {
  readonly sealer: Pick<Sealer, 'seal' | 'digest'>;
  readonly secrets: Pick<SecretStore, 'hostsOf' | 'bytesOf'>;
};

type OpenDeps = {
  readonly sealer: Pick<Sealer, 'open'>;
  readonly secrets: Pick<SecretStore, 'contentNow'>;
  /** Once for each that has no value, though it should. */
  readonly onFailed: (name: string, error: unknown) => void;
};

/**
 * The bindings after a change. A name that has one keeps its placeholder, which running programs know. `scope`: of
 * stored secrets. AppError invalid_argument, not_found for a secret that is not stored.
 */
export function changeBindings(
  before: readonly StoredBinding[],
  changes: BindingChanges,
  scope: string,
  deps: BindDeps,
): StoredBinding[] {
  const byName = new Map(before.map((binding) => [binding.name, binding]));
  for (const [name, wanted] of Object.entries(changes)) {
    if (wanted === null) byName.delete(name);
    else byName.set(name, bind(name, wanted, byName.get(name), scope, deps));
  }
  const after = [...byName.values()];
  assertDistinct(after);
  if (Object.values(changes).some((wanted) => wanted !== null)) assertSmall(after, deps);
  return after;
}

/** AppError invalid_argument. */
function assertSmall(bindings: readonly StoredBinding[], { secrets }: BindDeps): void {
  const sizes = bindings.map(({ use, sealed }) =>
    use === undefined ? Sealer.plainBytes(sealed ?? '') : secrets.bytesOf(use.scope, use.name),
  );
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  if (bytes > MAX_SANDBOX_SECRET_BYTES)
    throw new AppError(
      'invalid_argument',
      `the secrets of a sandbox must have at most ${MAX_SANDBOX_SECRET_BYTES} bytes in their values, not ${bytes}`,
    );
}

/** Variables with placeholders. */
export function placeholdersOf(bindings: readonly StoredBinding[] = []): Readonly<Record<string, string>> {
  const pairs = bindings.flatMap(({ env, placeholder }) =>
    env === undefined || placeholder === null ? [] : [[env, placeholder] as const],
  );
  return Object.fromEntries(pairs);
}

/** For what is written to files of a snapshot, or to an archive. */
export function toReferences(bindings: readonly StoredBinding[]): BindingReference[] {
  return bindings.map(({ use: _, sealed: _sealed, digest: _digest, ...reference }) => reference);
}

/**
 * With their values, which the caller wipes. One that cannot be used now has none, and the others are not its hostages:
 * sealed with another key, or beyond what a sandbox may have, as stored secrets grow later.
 */
export function openBindings(
  bindings: readonly StoredBinding[],
  { sealer, secrets, onFailed }: OpenDeps,
): OpenedSecret[] {
  const opened = bindings.map((binding): OpenedSecret => {
    const { name, id, placeholder, hosts, ports, forms, inject, plainHttp, use, sealed } = binding;
    const shared = { name, placeholder, ports, forms, inject, plainHttp: plainHttp === true };
    try {
      if (sealed !== undefined) return { ...shared, hosts, value: sealer.open(toSealId(id), sealed) };
      const content = use && secrets.contentNow(use.scope, use.name);
      if (content === undefined) return { ...shared, hosts, value: null };
      // Its owner may have narrowed it since.
      return { ...shared, hosts: intersectPatterns(hosts, content.hosts), value: content.value };
    } catch (error) {
      onFailed(name, error);
      return { ...shared, hosts, value: null };
    }
  });
  let bytes = 0;
  return opened.map((secret) => {
    bytes += secret.value?.length ?? 0;
    if (secret.value === null || bytes <= MAX_SANDBOX_SECRET_BYTES) return secret;
    secret.value.fill(0);
    onFailed(secret.name, new Error(`the values have more than ${MAX_SANDBOX_SECRET_BYTES} bytes`));
    return { ...secret, value: null };
  });
}

export function wipe(opened: readonly OpenedSecret[]): void {
  for (const { value } of opened) value?.fill(0);
}

function bind(
  name: string,
  wanted: SecretBinding,
  before: StoredBinding | undefined,
  scope: string,
  { sealer, secrets }: BindDeps,
): StoredBinding {
  const { value, use, inject, ports, env } = wanted;
  const stored = use === undefined ? undefined : secrets.hostsOf(scope, use);
  if (use !== undefined && stored === undefined)
    throw new AppError('invalid_argument', `secrets.${name}.use names a secret that does not exist`);
  const hosts = wanted.hosts ?? stored ?? [];
  const shared = stored && intersectPatterns(hosts, stored);
  const beyond = shared === undefined ? -1 : hosts.findIndex((host) => !shared.includes(host));
  // Not what it is: a value may be in the wrong field.
  if (beyond !== -1)
    throw new AppError(
      'invalid_argument',
      `secrets.${name}.hosts[${beyond}] is not among the hosts of the stored secret ${use}`,
    );
  const id = before?.id ?? `sec_${randomBytes(PLACEHOLDER_BYTES).toString('hex')}`;
  const prefix = wanted.prefix ?? `sbxs_${name.toLowerCase()}_`;
  const forms: readonly SecretForm[] = inject === undefined ? (wanted.in ?? DEFAULT_SECRET_FORMS) : [];
  const length = forms.includes('body') ? value?.length : undefined;
  return {
    name,
    id,
    prefix,
    placeholder: inject === undefined ? toPlaceholder(prefix, before, length) : null,
    ...(inject === undefined && env !== null && { env: env ?? name }),
    hosts,
    ...(ports && { ports }),
    forms,
    ...(inject && { inject }),
    ...(wanted.plain_http === true && { plainHttp: true as const }),
    ...(use !== undefined && { use: { scope, name: use } }),
    ...(value !== undefined && seal(sealer, id, value)),
  };
}

function toPlaceholder(prefix: string, before: StoredBinding | undefined, length = 0): string {
  if (before?.placeholder && before.prefix === prefix) return before.placeholder;
  const random = base32nopad.encode(randomBytes(PLACEHOLDER_BYTES)).toLowerCase();
  return (prefix + random).padEnd(length, 'x');
}

function seal(sealer: BindDeps['sealer'], id: string, value: string) {
  const bytes = Buffer.from(value, 'latin1');
  try {
    return { sealed: sealer.seal(toSealId(id), bytes), digest: sealer.digest(bytes) };
  } finally {
    bytes.fill(0);
  }
}

/** Not one of a stored secret. */
function toSealId(id: string): string {
  return `binding ${id}`;
}

/** AppError invalid_argument. */
function assertDistinct(bindings: readonly StoredBinding[]): void {
  if (bindings.length > MAX_SANDBOX_SECRETS)
    throw new AppError(
      'invalid_argument',
      `a sandbox must have at most ${MAX_SANDBOX_SECRETS} secrets, not ${bindings.length}`,
    );
  const byVariable = new Map<string, string>();
  for (const { name, env } of bindings) {
    if (env === undefined) continue;
    const other = byVariable.get(env);
    if (other !== undefined)
      throw new AppError(
        'invalid_argument',
        `secrets ${other} and ${name} have the same variable; give one another env`,
      );
    byVariable.set(env, name);
  }
  const injected = bindings.filter(({ inject }) => inject !== undefined);
  for (const [at, one] of injected.entries())
    for (const other of injected.slice(at + 1)) {
      const isSame = one.inject?.header.toLowerCase() === other.inject?.header.toLowerCase();
      if (!isSame || intersectPatterns(one.hosts, other.hosts).length === 0) continue;
      throw new AppError(
        'invalid_argument',
        `secrets ${one.name} and ${other.name} inject the same header for the same host`,
      );
    }
}
