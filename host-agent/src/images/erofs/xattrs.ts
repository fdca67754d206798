// Extended attributes, encoded inline after the inode.

import { roundUp, XATTR_ENTRY_BYTES, XATTR_HEADER_BYTES, XATTR_PREFIXES } from './format.ts';
import type { Xattrs } from './inode.ts';

type Stored = { readonly index: number; readonly name: string; readonly value: string };

/** Encoded size in bytes; 0 without attributes. */
export function xattrBytes(xattrs: Xattrs): number {
  if (xattrs.size === 0) return 0;
  const entries = toStored(xattrs).reduce((sum, entry) => sum + entryBytes(entry), 0);
  return entries === 0 ? 0 : XATTR_HEADER_BYTES + entries;
}

/** The value of i_xattr_icount. */
export function xattrCount(bytes: number): number {
  return bytes === 0 ? 0 : (bytes - XATTR_HEADER_BYTES) / XATTR_ENTRY_BYTES + 1;
}

/** Writes the attributes at offset `at` of a zeroed buffer. */
export function writeXattrs(into: Buffer, at: number, xattrs: Xattrs): void {
  let position = at + XATTR_HEADER_BYTES;
  for (const entry of toStored(xattrs)) {
    const { index, name, value } = entry;
    into.writeUInt8(name.length, position);
    into.writeUInt8(index, position + 1);
    into.writeUInt16LE(value.length, position + 2);
    into.write(name + value, position + XATTR_ENTRY_BYTES, 'latin1');
    position += entryBytes(entry);
  }
}

/** Whether EROFS can store an attribute of this name. */
export function isStorable(name: string): boolean {
  return XATTR_PREFIXES.some(([prefix]) =>
    prefix.endsWith('.') ? name.startsWith(prefix) && name.length > prefix.length : name === prefix,
  );
}

/** Sorted by name, because archives have them in any order and equal contents must give equal images. */
function toStored(xattrs: Xattrs): Stored[] {
  return [...xattrs]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, value]) => {
      const found = XATTR_PREFIXES.find(([prefix]) => name.startsWith(prefix));
      return found === undefined ? [] : [{ index: found[1], name: name.slice(found[0].length), value }];
    });
}

function entryBytes({ name, value }: Stored): number {
  return roundUp(XATTR_ENTRY_BYTES + name.length + value.length, XATTR_ENTRY_BYTES);
}
