// Attributes of a member that only builders of whole file systems need: owner, device number, extended attributes.
import { TarError } from './entry.ts';
import { numberOf } from './header.ts';
import { type PaxRecords, toInteger } from './pax.ts';

export type MemberAttributes = {
  readonly uid: number;
  readonly gid: number;
  readonly deviceMajor: number;
  readonly deviceMinor: number;
  /** Names and values are byte strings, as names of members are. */
  readonly xattrs: ReadonlyMap<string, string>;
};

const UID = { at: 108, bytes: 8 };
const GID = { at: 116, bytes: 8 };
const DEVICE_MAJOR = { at: 329, bytes: 8 };
const DEVICE_MINOR = { at: 337, bytes: 8 };
/** The kernel reads (uid_t)-1 as "unchanged". */
const MAX_ID = 0xffff_fffe;
const MAX_MAJOR = 0xfff;
const MAX_MINOR = 0xf_ffff;
const SET_USER_ID = 0o4000;
const SET_GROUP_ID = 0o2000;
const XATTR = 'SCHILY.xattr.';
const NO_XATTRS: ReadonlyMap<string, string> = new Map();

/** Throws TarError. */
export function readAttributes(block: Buffer, flag: string, pax: PaxRecords): MemberAttributes {
  const isDevice = flag === '3' || flag === '4';
  return {
    uid: readId('user', block, UID, pax.get('uid')),
    gid: readId('group', block, GID, pax.get('gid')),
    deviceMajor: isDevice ? bounded('a device', numberOf(block, DEVICE_MAJOR), MAX_MAJOR) : 0,
    deviceMinor: isDevice ? bounded('a device', numberOf(block, DEVICE_MINOR), MAX_MINOR) : 0,
    xattrs: readXattrs(pax),
  };
}

/**
 * The mode of a member whose owner becomes root. The set-user-id and set-group-id bits of a file that belongs to
 * another user or group are removed, because the program would run as root. An invalid id does not count as root's.
 */
export function modeForRoot(mode: number, block: Buffer, pax: PaxRecords): number {
  const isRoots = (field: typeof UID, text: string | undefined): boolean =>
    text === undefined ? isZero(block, field) : toInteger(text) === 0;
  const user = isRoots(UID, pax.get('uid')) ? 0 : SET_USER_ID;
  const group = isRoots(GID, pax.get('gid')) ? 0 : SET_GROUP_ID;
  return mode & ~(user | group);
}

function isZero(block: Buffer, field: typeof UID): boolean {
  try {
    return numberOf(block, field) === 0;
  } catch {
    return false;
  }
}

function readId(what: string, block: Buffer, field: typeof UID, text: string | undefined): number {
  const value = text === undefined ? numberOf(block, field) : toSigned(text);
  // Some systems store the user `nobody` as -2: the same 32 bits.
  const id = value < -1 && value >= -(2 ** 31) ? value + 2 ** 32 : value;
  return bounded(`a ${what}`, id, MAX_ID);
}

function toSigned(text: string): number {
  return text.startsWith('-') ? -toInteger(text.slice(1)) : toInteger(text);
}

function bounded(what: string, value: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= 0 && value <= max) return value;
  throw new TarError(`the archive is damaged: ${what} of the number ${value}`);
}

function readXattrs(pax: PaxRecords): ReadonlyMap<string, string> {
  let xattrs: Map<string, string> | undefined;
  for (const [key, value] of pax) {
    if (!key.startsWith(XATTR)) continue;
    xattrs ??= new Map();
    xattrs.set(key.slice(XATTR.length), value);
  }
  return xattrs ?? NO_XATTRS;
}
