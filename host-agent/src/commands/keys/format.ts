// Formats keys for output, always without the hash.
import { findWideGrants, type ListedKey, stateOf } from '../../keys/index.ts';

export function toJson(key: ListedKey) {
  const { name, id, tenant, seesAllTenants, policy, createdAtMs, expiresAtMs, revokedAtMs, lastUse } = key;
  const wide = stateOf(key) === 'valid' ? findWideGrants(key) : [];
  return {
    name,
    id,
    state: stateOf(key),
    created_at: toTime(createdAtMs),
    ...(tenant !== undefined && { tenant }),
    ...(seesAllTenants && { all_tenants: true }),
    ...(policy !== undefined && { policy }),
    ...(wide.length > 0 && { wide }),
    ...(expiresAtMs !== undefined && { expires_at: toTime(expiresAtMs) }),
    ...(revokedAtMs !== undefined && { revoked_at: toTime(revokedAtMs) }),
    ...(lastUse !== undefined && { last_use: { at: toTime(lastUse.atMs), address: lastUse.address } }),
  };
}

const COLUMNS = [20, 17, 9, 16, 25, 25];

export function toRow(key: ListedKey): string {
  const { name, id, tenant = '(all)', state, expires_at, last_use, policy, wide } = toJson(key);
  const what = policy === undefined ? 'everything' : JSON.stringify(policy);
  const all = wide === undefined ? what : `${what} WIDE: ${wide.join(', ')}`;
  return columns([name, id, state, tenant, expires_at ?? 'never', last_use?.at ?? 'never used', all]);
}

export const HEADING = columns(['NAME', 'ID', 'STATE', 'TENANT', 'EXPIRES', 'LAST USE', 'MAY DO']);

export function columns(cells: readonly string[]): string {
  return cells
    .map((cell, at) => cell.padEnd(COLUMNS[at] ?? 0))
    .join(' ')
    .trimEnd();
}

function toTime(ms: number): string {
  return new Date(ms).toISOString();
}
