// Keys that may do more than their policy looks like: those of before there were words for it, which keep what they could.
import type { Operation, Policy } from '@sandboxd/api';
import type { KeyRecord } from './record.ts';

/** Operations that show or change nothing of any tenant's. */
const NOBODYS: readonly Operation[] = ['images', 'metrics'];

/** Whether a key with that policy has to do with sandboxes or snapshots of somebody. */
export function concernsTenants({ operations }: Policy): boolean {
  return operations === undefined || operations.some((operation) => !NOBODYS.includes(operation));
}

/** A phrase for each thing that it may do and that its maker could not leave out then; none of one that is not old. */
export function findWideGrants({ keepsOldGrants, policy, tenant }: KeyRecord): string[] {
  if (!keepsOldGrants || (policy === undefined && tenant === undefined)) return [];
  const { operations, allow_profiles, net_allow_max } = policy ?? {};
  const names = (operation: Operation): boolean => operations?.includes(operation) === true;
  const may = (operation: Operation): boolean => operations === undefined || names(operation);
  const isShut = allow_profiles !== undefined;
  const hasTenant = tenant !== undefined;
  return [
    ...(policy !== undefined && !hasTenant && concernsTenants(policy) ? ['sees all tenants'] : []),
    // The key of a Prometheus had to have it: there was nothing narrower to see with.
    ...(names('read') && !names('exec') ? ['reads files, logs and environments in guests'] : []),
    ...(names('create') || (isShut && may('create'))
      ? [hasTenant ? 'pulls images' : 'pulls and imports images']
      : []),
    ...((names('delete') || (isShut && may('delete'))) && !hasTenant ? ['deletes images'] : []),
    ...((may('create') || may('fork')) && net_allow_max?.length !== 0 ? ['publishes any port'] : []),
  ];
}
