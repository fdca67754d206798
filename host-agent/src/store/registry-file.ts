// Checks a registry file before LMDB maps it: an invalid or truncated file would crash the process with a signal.
import { closeSync, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs';
import { errnoOf } from '../lib/errors.ts';

const MAGIC = 0xbeefc0de;
/** Bytes from a page's start: the header has 24, then magic, version, address, map size and two tables follow. */
const MAGIC_OFFSET = 24;
const PAGE_SIZE_OFFSET = 48;
const LAST_PAGE_OFFSET = 144;
const META_BYTES = 152;
const MIN_PAGE_BYTES = 256;
const MAX_PAGE_BYTES = 65_536;

type Meta = { readonly pageBytes: number; readonly lastPage: number };

/**
 * Throws an Error that says what is wrong. A missing or empty file is valid. A truncated file is extended with zero
 * pages, which LMDB rejects cleanly where they matter; with `reads`, where nothing may change, it is refused.
 */
export function checkRegistryFile(path: string, use: 'writes' | 'reads' = 'writes'): void {
  let fd: number;
  try {
    fd = openSync(path, use === 'reads' ? 'r' : 'r+');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return;
    throw error;
  }
  try {
    const { size } = fstatSync(fd);
    if (size === 0) return;
    const first = readMeta(fd, 0);
    const second = readMeta(fd, first.pageBytes);
    const wantedBytes = (Math.max(first.lastPage, second.lastPage) + 1) * first.pageBytes;
    if (size >= wantedBytes) return;
    if (use === 'reads') throw new Error(`it is truncated: ${size} of ${wantedBytes} bytes`);
    ftruncateSync(fd, wantedBytes);
  } finally {
    closeSync(fd);
  }
}

function readMeta(fd: number, position: number): Meta {
  const bytes = Buffer.alloc(META_BYTES);
  const length = readSync(fd, bytes, 0, META_BYTES, position);
  if (length < META_BYTES) throw new Error('it is cut off at its beginning');
  if (bytes.readUInt32LE(MAGIC_OFFSET) !== MAGIC) throw new Error('it is not an LMDB database');
  const pageBytes = bytes.readUInt32LE(PAGE_SIZE_OFFSET);
  const lastPage = Number(bytes.readBigUInt64LE(LAST_PAGE_OFFSET));
  const isSane = pageBytes >= MIN_PAGE_BYTES && pageBytes <= MAX_PAGE_BYTES && lastPage < 2 ** 32;
  if (!isSane) throw new Error('its first pages make no sense');
  return { pageBytes, lastPage };
}
