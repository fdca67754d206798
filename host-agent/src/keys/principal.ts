// Principals (clients of requests) and owners of sandboxes and snapshots.
import { includesOperation, type Operation, type Policy, type Route } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import type { RequestedResources } from './policy.ts';

/**
 * The key that created it, and its tenant. Names, not ids: a replacement key keeps access to what the old one
 * created.
 */
export type Owner = { readonly key: string; readonly tenant?: string };

export type KeyHolder = Owner & {
  readonly kind: 'key';
  /** The key's id; see `toKeyId`. */
  readonly id: string;
  readonly policy?: Policy;
  readonly expiresAtMs?: number;
};

/** The client that a request is decided for. */
export type Principal = KeyHolder | typeof OPERATOR | typeof ANONYMOUS;

/** Every client of a daemon without keys: may do everything; what it makes has no owner. */
export const OPERATOR = { kind: 'operator' } as const;
/** A client of a public route, which was not authenticated: has no operation, and sees nothing. */
export const ANONYMOUS = { kind: 'anonymous' } as const;

/** A key with a tenant sees what that tenant's keys created. A key without one, and the operator, see everything. */
export function canSee(principal: Principal, owner: Owner | undefined): boolean {
  if (principal.kind !== 'key') return principal.kind === 'operator';
  return principal.tenant === undefined || principal.tenant === owner?.tenant;
}

/** The owner of what it makes. Undefined without a key. */
export function ownerOf(principal: Principal): Owner | undefined {
  if (principal.kind !== 'key') return undefined;
  const { key, tenant } = principal;
  return tenant === undefined ? { key } : { key, tenant };
}

export function tenantOf(principal: Principal): string | undefined {
  return principal.kind === 'key' ? principal.tenant : undefined;
}

/** Undefined: nothing is forbidden. */
export function policyOf(principal: Principal): Policy | undefined {
  if (principal.kind === 'key') return principal.policy;
  return principal.kind === 'operator' ? undefined : { operations: [] };
}

/** The unit of fair shares: a tenant, or a key without a tenant. Undefined on a daemon without keys. */
export function sharerOf(owner: Owner | undefined): string | undefined {
  return owner?.tenant ?? owner?.key;
}

export function mayDo(principal: Principal, operation: Operation): boolean {
  const operations = policyOf(principal)?.operations;
  return operations === undefined || includesOperation(operations, operation);
}

/** AppError forbidden. */
export function assertOperation(principal: Principal, operation: Operation): void {
  if (!mayDo(principal, operation)) throw forbidden(principal, [describe(principal, operation)]);
}

/** AppError forbidden if the principal may not use the route at all, with any arguments. */
export function assertAccess(principal: Principal, { access }: Pick<Route, 'access'>): void {
  if (access !== 'public' && access !== 'any-key') assertOperation(principal, access);
}

/**
 * Images are shared by all tenants, so a key limited to certain profiles must not change what image names mean for
 * others. AppError forbidden.
 */
export function assertMayChangeImages(principal: Principal): void {
  const allowed = policyOf(principal)?.allow_profiles;
  if (allowed === undefined) return;
  const reason =
    `no image is among allow_profiles ${JSON.stringify(allowed)}, ` +
    'so it neither pulls, imports nor deletes any';
  throw forbidden(principal, [reason]);
}

export function describe(principal: Principal, operation: Operation): string {
  const { operations = [] } = policyOf(principal) ?? {};
  return `operation ${operation} is not among ${operations.join(', ') || 'its operations (none)'}`;
}

/** `overQuota`: what the quota of its tenant refuses. AppError forbidden names who refuses, and each exceeded limit. */
export function forbidden(
  principal: Principal | Owner,
  overPolicy: readonly string[],
  overQuota: readonly string[] = [],
): AppError {
  const { key = '', tenant = '' }: Partial<Owner> = 'key' in principal ? principal : {};
  const refusing = [
    ...(overPolicy.length > 0 ? [`the policy of key ${JSON.stringify(key)}`] : []),
    ...(overQuota.length > 0 ? [`the quota of tenant ${JSON.stringify(tenant)}`] : []),
  ];
  const message = `${refusing.join(' and ')} ${refusing.length === 1 ? 'forbids' : 'forbid'} it`;
  const advice = overQuota.length > 0 ? 'delete what is not needed, or try later' : 'or use another key';
  const reasons = [...overPolicy, ...overQuota];
  return new AppError('forbidden', `${message}: ${reasons.join('; ')}; ask for less, ${advice}`);
}

// What limits are checked for: the client of a request, and what it changes or takes.

/** The client of a request. `onResolved` is called with the resources it requests, allowed or not. */
export type RequestContext = {
  readonly principal: Principal;
  readonly onResolved?: ((requested: RequestedResources) => void) | undefined;
};

/** For whom a snapshot is taken: a client, or the owner whose idle sandbox is saved, which needs no permission. */
export type SnapshotMaker = { readonly owner: Owner | undefined; readonly policy?: Policy | undefined };

/** Fields that a request does not change are absent. */
export type RequestedChange = {
  readonly owner: Owner | undefined;
  /** From its creation to its new end; 0: no end. */
  readonly lifetimeS?: number;
  readonly idleTimeoutS?: number;
  /** Whether it will be saved after the idle timeout, and whether it was before. */
  readonly savesItself: boolean;
  readonly savedItself: boolean;
};
