// Changes of the secrets that a sandbox may use, as part of a change of its network.
import { isDeepStrictEqual } from 'node:util';
import type { Limits, RequestContext } from '../keys/index.ts';
import type { SandboxSecrets, StoredBinding } from '../secrets/index.ts';
import { type Metadata, NO_METADATA } from './metadata.ts';
import type { NetworkChange } from './network-types.ts';
import type { SandboxRecord } from './record.ts';
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
