// Finds keys with more rights than their policy shows: keys older than some policy fields keep the rights that they
// had.
import type { Operation, Policy } from '@sandboxd/api';
import type { KeyRecord } from './record.ts';

/** Operations that neither show nor change anything of a tenant. */
const TENANT_FREE: readonly Operation[] = ['images', 'metrics'];

/** Whether a policy allows an operation on sandboxes or snapshots. */
export function concernsTenants({ operations }: Policy): boolean {
  return operations === undefined || operations.some((operation) => !TENANT_FREE.includes(operation));
}

/** Returns one phrase for each right that policies could not exclude when the key was created; none for newer keys. */
export function findWideGrants({ keepsOldGrants, policy, tenant }: KeyRecord): string[] {
  if (!keepsOldGrants || (policy === undefined && tenant === undefined)) return [];
  const { operations, allow_profiles, net_allow_max } = policy ?? {};
  const names = (operation: Operation): boolean => operations?.includes(operation) === true;
  const may = (operation: Operation): boolean => operations === undefined || names(operation);
  const limitsProfiles = allow_profiles !== undefined;
  const hasTenant = tenant !== undefined;
  return [
    ...(policy !== undefined && !hasTenant && concernsTenants(policy) ? ['sees all tenants'] : []),
    // Prometheus keys needed `read`: there was no narrower operation.
    ...(names('read') && !names('exec') ? ['reads files, logs and environments in guests'] : []),
    ...(names('create') || (limitsProfiles && may('create'))
      ? [hasTenant ? 'pulls images' : 'pulls and imports images']
      : []),
    ...((names('delete') || (limitsProfiles && may('delete'))) && !hasTenant ? ['deletes images'] : []),
    ...((may('create') || may('fork')) && net_allow_max?.length !== 0 ? ['publishes any port'] : []),
  ];
}
