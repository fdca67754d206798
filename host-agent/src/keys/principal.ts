// Who asks, and whose a thing is.
import { includesOperation, type Operation, type Policy, type Route } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';

/** Made by which key, for which tenant. Names, as a key that replaces another goes on with what that one made. */
export type Owner = { readonly key: string; readonly tenant?: string };

/** The client that a request is decided for: the holder of a key, OPERATOR, or ANONYMOUS. */
export type Principal = Owner & {
  /** Of the key; see `toKeyId`. Empty without one. */
  readonly id: string;
  readonly policy?: Policy;
  /** The key is older than some words of policies, and keeps what it could without them. */
  readonly keepsOldGrants?: true;
};

/** Every client of a daemon without keys: may do everything; what it makes has no owner. */
export const OPERATOR: Principal = { id: '', key: '' };
/** A client of a public route, which was not authenticated: has no operation. */
export const ANONYMOUS: Principal = { id: '', key: '', policy: { operations: [] } };

/** What decides of it. */
export type Grants = Pick<Principal, 'policy' | 'keepsOldGrants'>;

/** Whether the principal sees it: one with a tenant sees what the keys of that tenant made, any other everything. */
export function canSee({ tenant }: Principal, owner: Owner | undefined): boolean {
  return tenant === undefined || tenant === owner?.tenant;
}

/** Undefined without a key. */
export function toOwner({ key, tenant }: Owner): Owner | undefined {
  if (key === '') return undefined;
  return tenant === undefined ? { key } : { key, tenant };
}

/** Who has a share of what all use: a tenant, or a key without one. Undefined where nobody needs a key. */
export function sharerOf(owner: Owner | undefined): string | undefined {
  return owner?.tenant ?? owner?.key;
}

/** `formerly`: what a key needs for it that is older than the operation. */
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

/** AppError forbidden for who may not use the route at all, whatever they ask of it. */
export function assertAccess(
  principal: Principal,
  { access, formerly }: Pick<Route, 'access' | 'formerly'>,
): void {
  if (access !== 'public' && access !== 'any-key') assertOperation(principal, access, formerly);
}

/**
 * All share the images: who may boot certain profiles only must not have a say in what others boot by the name of an image.
 * AppError forbidden.
 */
export function assertMayChangeImages(principal: Principal): void {
  const allowed = principal.policy?.allow_profiles;
  if (allowed === undefined || principal.keepsOldGrants) return;
  const why = `no image is among allow_profiles ${JSON.stringify(allowed)}, so it neither pulls, imports nor deletes any`;
  throw forbidden(principal, [why]);
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
