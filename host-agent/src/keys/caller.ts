// Who asks, and whose a thing is.
import type { Operation, Policy } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';

/** Made by which key, for which tenant. Names, as a key that replaces another goes on with what that one made. */
export type Owner = { readonly key: string; readonly tenant?: string };

/** The holder of a key. Where nobody asks for keys there is no caller, who may do everything. */
export type Caller = Owner & {
  /** Of the key; see `toKeyId`. */
  readonly id: string;
  readonly policy?: Policy;
};

/** Whether the caller is to know of it: one with a tenant sees what the keys of that tenant made, any other everything. */
export function sees(caller: Caller | undefined, owner: Owner | undefined): boolean {
  return caller?.tenant === undefined || caller.tenant === owner?.tenant;
}

export function toOwner(caller: Caller | undefined): Owner | undefined {
  if (caller === undefined) return undefined;
  const { key, tenant } = caller;
  return tenant === undefined ? { key } : { key, tenant };
}

/** Who has a share of what all use: a tenant, or a key without one. Undefined where nobody needs a key. */
export function sharerOf(owner: Owner | undefined): string | undefined {
  return owner?.tenant ?? owner?.key;
}

export function mayDo({ policy }: Pick<Caller, 'policy'>, operation: Operation): boolean {
  return policy?.operations === undefined || policy.operations.includes(operation);
}

/** AppError forbidden. */
export function assertOperation(caller: Caller | undefined, operation: Operation): void {
  if (caller !== undefined && !mayDo(caller, operation))
    throw forbidden(caller, [describe(caller, operation)]);
}

export function describe({ policy }: Pick<Caller, 'policy'>, operation: Operation): string {
  return `operation ${operation} is not among ${policy?.operations?.join(', ') || 'the operations, which are none'}`;
}

export function forbidden({ key }: Owner, reasons: readonly string[]): AppError {
  return new AppError(
    'forbidden',
    `the policy of key ${JSON.stringify(key)} forbids it: ${reasons.join('; ')}; ask for less, or use another key`,
  );
}
