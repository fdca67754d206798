// The records of a PAX extended header: `<length> <key>=<value>\n`; the length includes all of the record.
import { TarError } from './entry.ts';

export type PaxRecords = Map<string, string>;

/** Keys that may occur more than once; the values are joined with commas, as in the later form of the format. */
const REPEATED = new Map([
  ['GNU.sparse.offset', 'GNU.sparse.map'],
  ['GNU.sparse.numbytes', 'GNU.sparse.map'],
]);

/** Adds the records to `into`; an empty value removes a record. Values are byte strings. Throws TarError. */
export function readPax(bytes: Buffer, into: PaxRecords): void {
  for (let at = 0; at < bytes.length && bytes[at] !== 0; ) {
    const space = bytes.indexOf(0x20, at);
    const length = space < 0 || space - at > 10 ? 0 : toInteger(bytes.toString('latin1', at, space));
    const end = at + length;
    const equals = bytes.indexOf(0x3d, space);
    if (length === 0 || end > bytes.length || bytes[end - 1] !== 0x0a || equals < 0 || equals >= end - 1) {
      throw new TarError('the archive is damaged: a record of an extended header is malformed');
    }
    const key = bytes.toString('latin1', space + 1, equals);
    const value = bytes.toString('latin1', equals + 1, end - 1);
    const joined = REPEATED.get(key);
    if (joined !== undefined) {
      const before = into.get(joined);
      into.set(joined, before === undefined ? value : `${before},${value}`);
    } else if (value === '') into.delete(key);
    else into.set(key, value);
    at = end;
  }
}

/** A decimal number of seconds with any number of digits after the point. Throws TarError. */
export function parseTime(text: string): { readonly seconds: number; readonly nanos: number } {
  const match = /^(-?)(\d{1,15})(?:\.(\d*))?$/.exec(text);
  if (match === null)
    throw new TarError('the archive is damaged: a time of an extended header is not a number');
  const nanos = Number((match[3] ?? '').slice(0, 9).padEnd(9, '0'));
  const seconds = Number(match[2]);
  if (match[1] === '') return { seconds, nanos };
  return nanos === 0 ? { seconds: -seconds, nanos } : { seconds: -seconds - 1, nanos: 1e9 - nanos };
}

/** A decimal count; NaN for any other text. */
export function toInteger(text: string): number {
  return /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
}
