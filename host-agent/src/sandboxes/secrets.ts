// What secrets mean for a sandbox: whose stored ones it may use, which limits count, and what clients see of them.
import { type SecretBinding, secretBindings } from '@sandboxd/api';
import { type Owner, type Principal, type RequestedSecret, tenantOf } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import type { NetworkPolicy } from '../network/index.ts';
import type { BindingReference, SandboxSecrets, StoredBinding } from '../secrets/index.ts';
import { assertInspectable } from './secret-hosts.ts';
import type { CreateSandboxOptions } from './types.ts';

export type BoundSecretInfo = Omit<BindingReference, 'id' | 'placeholder' | 'prefix'> & {
  readonly use?: string;
  readonly hasValue: boolean;
};

/** Of the client's stored secrets. */
export function scopeOf(principal: Principal): string {
  return tenantOf(principal) ?? '';
}

export function scopeOfOwner(owner: Owner | undefined): string {
  return owner?.tenant ?? '';
}

/** What a policy limits. */
export function toRequestedSecrets(bindings: readonly StoredBinding[]): RequestedSecret[] {
  return bindings.map(({ name, hosts, use }) => ({ name, hosts, ...(use && { use: use.name }) }));
}

export function toSecretInfos(
  bindings: readonly StoredBinding[],
  secrets: Pick<SandboxSecrets, 'hasValue'>,
): BoundSecretInfo[] {
  return bindings.map((binding) => {
    const { name, env, hosts, ports, forms, inject, plainHttp, use } = binding;
    return {
      ...{ name, hosts, forms, hasValue: secrets.hasValue(binding) },
      ...(use && { use: use.name }),
      ...(env !== undefined && { env }),
      ...(ports && { ports }),
      ...(inject && { inject }),
      ...(plainHttp && { plainHttp }),
    };
  });
}

/** Those of a create. AppError as `SandboxSecrets.change` and `assertUsable`. */
export function bindForCreate(
  { secrets: wanted = {}, env = {} }: CreateSandboxOptions,
  network: NetworkPolicy | undefined,
  principal: Principal,
  secrets: Pick<SandboxSecrets, 'change'>,
): readonly StoredBinding[] {
  const bindings = secrets.change([], wanted, scopeOf(principal));
  assertUsable(bindings, network, env);
  return bindings;
}

/** What a client asked for: the rest is random. */
export function toWishes(bindings: readonly StoredBinding[] = []) {
  const wishes = bindings.map(({ id: _, placeholder: _placeholder, sealed: _sealed, ...wish }) => wish);
  return wishes.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** AppError invalid_argument: a secret is of use on the way to a host only, and has a variable of its own. */
export function assertUsable(
  bindings: readonly StoredBinding[],
  network: NetworkPolicy | undefined,
  env: Readonly<Record<string, string>>,
): void {
  if (bindings.length === 0) return;
  if (network === undefined)
    throw new AppError(
      'invalid_argument',
      'secrets need a network with enabled: true, on the way to whose hosts they are',
    );
  assertInspectable(network, bindings);
  const clash = bindings.find((binding) => binding.env !== undefined && Object.hasOwn(env, binding.env));
  if (clash === undefined) return;
  throw new AppError(
    'invalid_argument',
    `secrets.${clash.name} has a variable that env has as well; give the secret another env`,
  );
}

/**
 * Bindings of an archive, which have no values: the guest knows the placeholders. Undefined if they are not what a
 * create could have made.
 */
export function readReferences(references: readonly BindingReference[]): StoredBinding[] | undefined {
  const isKnown = references.every(({ id, placeholder, prefix }) => {
    if (!/^sec_[0-9a-f]{32}$/.test(id)) return false;
    return placeholder === null || (placeholder.startsWith(prefix) && /^[\w-]{26,65536}$/.test(placeholder));
  });
  const requests = references.map(({ name, hosts, ports, forms, inject, env, plainHttp, prefix }) => [
    name,
    {
      ...{ value: 'unbound-value', hosts, ports, inject, plain_http: plainHttp },
      ...(inject === undefined && { in: forms, env: env ?? null }),
      // Its default has the name and is longer than others.
      ...(inject === undefined && prefix !== `sbxs_${name.toLowerCase()}_` && { prefix }),
    },
  ]);
  const names = new Set(references.map(({ name }) => name));
  const parsed = secretBindings.safeParse(Object.fromEntries(requests) satisfies Record<string, unknown>);
  if (!isKnown || !parsed.success || names.size !== references.length) return undefined;
  return references.map(({ id, name, placeholder, prefix }): StoredBinding => {
    const checked = parsed.data[name] as SecretBinding;
    return {
      ...{ id, name, placeholder, prefix, hosts: checked.hosts ?? [], forms: checked.in ?? [] },
      ...(checked.env && { env: checked.env }),
      ...(checked.ports && { ports: checked.ports }),
      ...(checked.inject && { inject: checked.inject }),
      ...(checked.plain_http === true && { plainHttp: true as const }),
    };
  });
}
