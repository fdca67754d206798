// Tar headers of the archives that the agent produces: ustar, preceded by a PAX header where ustar fields are too
// small.
import { BLOCK_BYTES, paddingAfter } from '@sandboxd/proto';

export type TarMember = {
  readonly flag: '0' | '1' | '2' | '5';
  /** Byte string, as in TarEntry. */
  readonly name: string;
  readonly target: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly sizeBytes: number;
  readonly mtimeSeconds: number;
};

const NAME_BYTES = 100;
const PREFIX_BYTES = 155;
const MAX_SIZE = 8 ** 11 - 1;
const MAX_ID = 8 ** 7 - 1;
const MAX_SECONDS = 8 ** 11 - 1;

/** The header blocks of a member. */
export function encodeHeader(member: TarMember): Buffer {
  const split = splitName(member.name);
  const pax: (readonly [string, string])[] = [];
  if (split === undefined) pax.push(['path', member.name]);
  if (member.target.length > NAME_BYTES) pax.push(['linkpath', member.target]);
  if (member.sizeBytes > MAX_SIZE) pax.push(['size', String(member.sizeBytes)]);
  if (member.uid > MAX_ID) pax.push(['uid', String(member.uid)]);
  if (member.gid > MAX_ID) pax.push(['gid', String(member.gid)]);
  if (member.mtimeSeconds < 0 || member.mtimeSeconds > MAX_SECONDS)
    pax.push(['mtime', String(member.mtimeSeconds)]);
  const header = encodeBlock(member, split ?? { prefix: '', name: member.name.slice(0, NAME_BYTES) });
  return pax.length === 0 ? header : Buffer.concat([encodePax(member, pax), header]);
}

/** The end-of-archive blocks. */
export function endMark(): Buffer {
  return Buffer.alloc(2 * BLOCK_BYTES);
}

function encodePax(member: TarMember, records: readonly (readonly [string, string])[]): Buffer {
  const body = Buffer.from(records.map(([key, value]) => encodeRecord(key, value)).join(''), 'latin1');
  const header = encodeBlock(
    { ...member, target: '', sizeBytes: body.length, mode: 0o644 },
    { prefix: '', name: 'PaxHeader' },
    'x',
  );
  return Buffer.concat([header, body, Buffer.alloc(paddingAfter(body.length))]);
}

/** A record's length includes its own digits. */
function encodeRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return length + rest;
}

function encodeBlock(
  { flag, mode, uid, gid, sizeBytes, mtimeSeconds, target }: TarMember,
  { prefix, name }: { readonly prefix: string; readonly name: string },
  type: string = flag,
): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  const put = (text: string, at: number): void => void block.write(text, at, 'latin1');
  put(name, 0);
  put(octal(mode & 0o7777, 7), 100);
  put(octal(Math.min(uid, MAX_ID), 7), 108);
  put(octal(Math.min(gid, MAX_ID), 7), 116);
  put(octal(Math.min(sizeBytes, MAX_SIZE), 11), 124);
  put(octal(Math.min(Math.max(mtimeSeconds, 0), MAX_SECONDS), 11), 136);
  put('        ', 148);
  put(type, 156);
  put(target.slice(0, NAME_BYTES), 157);
  put('ustar\x0000', 257);
  put(prefix, 345);
  let sum = 0;
  for (let at = 0; at < BLOCK_BYTES; at++) sum += block[at] ?? 0;
  put(`${octal(sum, 6)}\0 `, 148);
  return block;
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0');
}

/** Splits a long name at a slash for ustar's two name fields; undefined when that is impossible. */
function splitName(name: string): { readonly prefix: string; readonly name: string } | undefined {
  if (name.length <= NAME_BYTES) return { prefix: '', name };
  const slash = name.indexOf('/', name.length - NAME_BYTES - 1);
  if (slash <= 0 || slash > PREFIX_BYTES || slash === name.length - 1) return undefined;
  return { prefix: name.slice(0, slash), name: name.slice(slash + 1) };
}
