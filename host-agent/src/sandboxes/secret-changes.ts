// Changes of the secrets that a sandbox may use: as part of a change of its network, and of stored ones that it uses.
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { Limits, RequestContext } from '../keys/index.ts';
import { type SandboxSecrets, SOURCE_TTL_MS, type StoredBinding } from '../secrets/index.ts';
import { type Metadata, metadataOf, NO_METADATA } from './metadata.ts';
import type { NetworkChange } from './network-types.ts';
import type { SandboxRecord } from './record.ts';
import type { SandboxNetworks } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import { assertUsable, scopeOfOwner, toRequestedSecrets } from './secrets.ts';

type SecretChangeDeps = {
  readonly secrets: Pick<SandboxSecrets, 'change'>;
  readonly limits: Pick<Limits, 'admitSecrets'>;
};

/**
 * Of those that the request names alone, a policy is a limit: others were admitted before. Stored ones are those of the
 * sandbox’s owner, not of the client.
 */
export function patchSecrets(
  { owner, metadata: { secrets: before = [], env = [] } = NO_METADATA }: SandboxRecord,
  { secrets: changes, replacesSecrets }: NetworkChange,
  request: RequestContext,
  { secrets, limits }: SecretChangeDeps,
): readonly StoredBinding[] {
  if (changes === undefined && replacesSecrets !== true) return before;
  const kept = replacesSecrets ? before.filter(({ name }) => Object.hasOwn(changes ?? {}, name)) : before;
  const after = secrets.change(kept, changes ?? {}, scopeOfOwner(owner));
  assertUsable(after, { allowlist: [] }, Object.fromEntries(env));
  const named = after.filter(({ name }) => Object.hasOwn(changes ?? {}, name));
  limits.admitSecrets(request, toRequestedSecrets(named));
  return after;
}

/** Names. */
export function findChangedSecrets(
  before: readonly StoredBinding[],
  after: readonly StoredBinding[],
): string[] {
  const names = new Set([...before, ...after].map(({ name }) => name));
  const find = (list: readonly StoredBinding[], name: string) => list.find((each) => each.name === name);
  return [...names].filter((name) => !isDeepStrictEqual(find(before, name), find(after, name)));
}

export function withSecrets(
  { secrets: _, ...metadata }: Metadata,
  secrets: readonly StoredBinding[],
): Metadata {
  return { ...metadata, ...(secrets.length > 0 && { secrets }) };
}

type FollowOptions = {
  readonly secrets: Pick<SandboxSecrets, 'onChange' | 'areRead' | 'refresh'>;
  readonly network: Pick<SandboxNetworks, 'changeSecrets'>;
  readonly sandboxes: () => Iterable<Pick<Sandbox, 'id' | 'record'>>;
  /** Until it aborts. */
  readonly signal: AbortSignal;
  readonly log: Logger;
};

/** Stored secrets that change: the gateways of the sandboxes that use them get the new value, or none. */
export function followSecrets({ secrets, network, sandboxes, signal, log }: FollowOptions): void {
  const renew = async ({ id, record }: Pick<Sandbox, 'id' | 'record'>): Promise<void> => {
    if (record.network === undefined) return;
    await network
      .changeSecrets(record.network)
      .catch((err) => log.error({ err, sandbox: id }, 'a sandbox does not have the new value of a secret'));
  };
  const subscription = secrets.onChange(async (scope, name) => {
    const users = [...sandboxes()].filter((sandbox) =>
      bindingsOf(sandbox).some(({ use }) => use?.scope === scope && use.name === name),
    );
    await Promise.all(users.map(renew));
  });
  // Values of files, commands and credentials change by themselves.
  const timer = setInterval(() => {
    for (const sandbox of sandboxes())
      if (secrets.areRead(bindingsOf(sandbox)))
        void secrets.refresh(bindingsOf(sandbox)).then(() => renew(sandbox));
  }, SOURCE_TTL_MS).unref();
  signal.addEventListener('abort', () => {
    clearInterval(timer);
    subscription[Symbol.dispose]();
  });
}

function bindingsOf({ record }: Pick<Sandbox, 'record'>) {
  return metadataOf(record).secrets ?? [];
}
