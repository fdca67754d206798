// The table of rules in a sandbox's network namespace, and its sets of addresses.

export const GUEST_TABLE = 'ip sandbox';
/** Of a TCP connection. */
export const OPENING = 'tcp flags & (fin | syn | rst | ack) == syn';
/** Limit of addresses that one guest may have open at once. */
export const MAX_OPEN = 8192;
/** The same for the addresses of each list of ports. */
export const MAX_OPEN_BY_PORT = 1024;

/** The names of the two sets of a class of rules; undefined: those of the allowlist. */
export function setNames(set: string | undefined): readonly [open: string, used: string] {
  return set === undefined ? ['allowed', 'used'] : [`open_${set}`, `used_${set}`];
}

/** How many addresses the set has at most: a command that adds more fails as a whole. */
export function maxOpen(set: string): number {
  return setNames(undefined).includes(set) ? MAX_OPEN : MAX_OPEN_BY_PORT;
}

/** An address in a set of the kernel. */
export type Element = { readonly set: string; readonly address: string; readonly ttlS: number };
