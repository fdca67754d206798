// What a key may do.
import type { WhoAmI } from '@sandboxd/client';

export type Policy = Extract<WhoAmI, { readonly scoped: true }>['policy'];
export type Operation = NonNullable<Policy['operations']>[number];

/** Whether a policy lets its key do something: as the daemon's `includesOperation`. */
export function permits(policy: Policy | undefined, operation: Operation): boolean {
  const operations = policy?.operations;
  if (operations === undefined || operations.includes(operation)) return true;
  return (operation === 'view' || operation === 'metrics') && operations.includes('read');
}
