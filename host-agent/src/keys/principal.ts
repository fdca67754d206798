// Principals (clients of requests) and owners of sandboxes and snapshots.
import { includesOperation, type Operation, type Policy, type Route } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';

/**
 * The key that created it, and its tenant. Names, not ids: a replacement key keeps access to what the old one
 * created.
 */
export type Owner = { readonly key: string; readonly tenant?: string };

/** The client that a request is decided for: the holder of a key, OPERATOR, or ANONYMOUS. */
export type Principal = Owner & {
  /** The key's id; see `toKeyId`. Empty without a key. */
  readonly id: string;
  readonly policy?: Policy;
  /** The key is older than some policy fields, and keeps the rights that it had without them. */
  readonly keepsOldGrants?: true;
};

/** Every client of a daemon without keys: may do everything; what it makes has no owner. */
export const OPERATOR: Principal = { id: '', key: '' };
/** A client of a public route, which was not authenticated: has no operation. */
export const ANONYMOUS: Principal = { id: '', key: '', policy: { operations: [] } };

/** The parts of a principal that decide what it may do. */
export type Grants = Pick<Principal, 'policy' | 'keepsOldGrants'>;

/** A principal with a tenant sees what that tenant's keys created; any other principal sees everything. */
export function canSee({ tenant }: Principal, owner: Owner | undefined): boolean {
  return tenant === undefined || tenant === owner?.tenant;
}

/** Undefined without a key. */
export function toOwner({ key, tenant }: Owner): Owner | undefined {
  if (key === '') return undefined;
  return tenant === undefined ? { key } : { key, tenant };
}

/** The unit of fair shares: a tenant, or a key without a tenant. Undefined on a daemon without keys. */
export function sharerOf(owner: Owner | undefined): string | undefined {
  return owner?.tenant ?? owner?.key;
}

/** `formerly`: the operation that allowed it for keys older than `operation`. */
export function mayDo(
  { policy: { operations } = {}, keepsOldGrants }: Grants,
  operation: Operation,
  formerly?: Operation,
): boolean {
  if (operations === undefined || includesOperation(operations, operation)) return true;
  return keepsOldGrants === true && formerly !== undefined && operations.includes(formerly);
}

/** AppError forbidden. */
export function assertOperation(principal: Principal, operation: Operation, formerly?: Operation): void {
  if (!mayDo(principal, operation, formerly)) throw forbidden(principal, [describe(principal, operation)]);
}

/** AppError forbidden if the principal may not use the route at all, with any arguments. */
export function assertAccess(
  principal: Principal,
  { access, formerly }: Pick<Route, 'access' | 'formerly'>,
): void {
  if (access !== 'public' && access !== 'any-key') assertOperation(principal, access, formerly);
}

/**
 * Images are shared by all tenants, so a key limited to certain profiles must not change what image names mean for
 * others. AppError forbidden.
 */
export function assertMayChangeImages(principal: Principal): void {
  const allowed = principal.policy?.allow_profiles;
  if (allowed === undefined || principal.keepsOldGrants) return;
  const reason =
    `no image is among allow_profiles ${JSON.stringify(allowed)}, ` +
    'so it neither pulls, imports nor deletes any';
  throw forbidden(principal, [reason]);
}

export function describe({ policy }: Grants, operation: Operation): string {
  return `operation ${operation} is not among ${policy?.operations?.join(', ') || 'the operations, which are none'}`;
}

export function forbidden({ key }: Owner, reasons: readonly string[]): AppError {
  return new AppError(
    'forbidden',
    `the policy of key ${JSON.stringify(key)} forbids it: ${reasons.join('; ')}; ask for less, or use another key`,
  );
}
