// The extents of a sparse member: GNU's old headers, and the three PAX forms.
import { TarError } from './entry.ts';
import { checkSize, numberOf } from './header.ts';
import { type PaxRecords, toInteger } from './pax.ts';

/** Size of the offset and length fields of one extent in GNU's headers. */
const NUMBER_BYTES = 12;
const EXTENTS_AT = 386;
const EXTENTS = 4;
const MORE_AT = 482;
const REAL_SIZE = { at: 483, bytes: NUMBER_BYTES };
const NEXT_EXTENTS = 21;
const NEXT_MORE_AT = 504;
/** 4 MiB of memory, and more extents than any regularly written file has. */
const MAX_EXTENTS = 262_144;
const MAX_MAP_LINE = 24;

/** Extents by ascending offset, which is also the order of the content. */
export class SparseMap {
  readonly sizeBytes: number;
  readonly #extents: number[] = [];
  #contentBytes = 0;
  #index = 0;
  #done = 0;

  constructor(sizeBytes: number) {
    this.sizeBytes = checkSize(sizeBytes);
  }

  /** Throws TarError for an extent that overlaps or precedes the one before it, or exceeds the file. */
  add(offset: number, length: number): void {
    const last = this.#extents.length - 2;
    const from = last < 0 ? 0 : (this.#extents[last] ?? 0) + (this.#extents[last + 1] ?? 0);
    if (!(checkSize(offset) >= from && offset + checkSize(length) <= this.sizeBytes)) {
      throw new TarError('the archive is damaged: the map of a sparse member is out of order');
    }
    if (this.#extents.length >= 2 * MAX_EXTENTS)
      throw new TarError(`a sparse member has more than ${MAX_EXTENTS} extents`);
    this.#extents.push(offset, length);
    this.#contentBytes += length;
  }

  /** Throws TarError unless the archive's content has exactly the size of the extents. */
  check(contentBytes: number): void {
    if (this.#contentBytes !== contentBytes)
      throw new TarError('the archive is damaged: the map of a sparse member does not fit its content');
  }

  /** Offset of the next content bytes, and how many of at most `maxBytes` belong there. */
  next(maxBytes: number): { readonly position: number; readonly bytes: number } {
    for (;;) {
      const offset = this.#extents[2 * this.#index] ?? 0;
      const left = (this.#extents[2 * this.#index + 1] ?? maxBytes) - this.#done;
      if (left > 0) {
        const bytes = Math.min(left, maxBytes);
        const position = offset + this.#done;
        this.#done += bytes;
        return { position, bytes };
      }
      this.#index += 1;
      this.#done = 0;
    }
  }
}

/** Reads the extents of a header of type 'S'. True when a block with further extents follows. */
export function readGnuSparse(block: Buffer): { readonly map: SparseMap; readonly hasMore: boolean } {
  const map = new SparseMap(numberOf(block, REAL_SIZE));
  addExtents(map, block, EXTENTS_AT, EXTENTS);
  return { map, hasMore: block[MORE_AT] !== 0 };
}

/** Reads a block with further extents. True when another follows. */
export function readMoreGnuSparse(map: SparseMap, block: Buffer): boolean {
  addExtents(map, block, 0, NEXT_EXTENTS);
  return block[NEXT_MORE_AT] !== 0;
}

function addExtents(map: SparseMap, block: Buffer, start: number, count: number): void {
  for (let n = 0; n < count; n++) {
    const at = start + 2 * NUMBER_BYTES * n;
    if (block[at] === 0) return;
    const offset = numberOf(block, { at, bytes: NUMBER_BYTES });
    map.add(offset, numberOf(block, { at: at + NUMBER_BYTES, bytes: NUMBER_BYTES }));
  }
}

/** The map of PAX forms 0.0 and 0.1, which is in the records; undefined when there is no map. */
export function readPaxSparse(pax: PaxRecords): SparseMap | undefined {
  const text = pax.get('GNU.sparse.map');
  if (text === undefined) return undefined;
  const map = new SparseMap(toInteger(pax.get('GNU.sparse.size') ?? ''));
  const numbers = text.split(',');
  for (let n = 0; n < numbers.length; n += 2)
    map.add(toInteger(numbers[n] ?? ''), toInteger(numbers[n + 1] ?? ''));
  return map;
}

/** Whether the content starts with its map (form 1.0). */
export function hasMapInContent(pax: PaxRecords): boolean {
  return pax.get('GNU.sparse.major') === '1' && pax.get('GNU.sparse.minor') === '0';
}

/** The map at the start of the content: lines of decimal numbers; the first is the number of extents. */
export class MapInContent {
  readonly #map: SparseMap;
  #line = '';
  #isCounted = false;
  #numbersLeft = 0;
  #offset: number | undefined;

  constructor(pax: PaxRecords) {
    this.#map = new SparseMap(toInteger(pax.get('GNU.sparse.realsize') ?? ''));
  }

  /** Adds the next block; returns the map when it is complete. */
  push(block: Buffer): SparseMap | undefined {
    for (let at = 0; at < block.length; at++) {
      const byte = block[at] ?? 0;
      if (byte !== 0x0a) {
        this.#line += String.fromCharCode(byte);
        if (this.#line.length > MAX_MAP_LINE)
          throw new TarError('the archive is damaged: the map of a sparse member is not text');
      } else if (this.#take(checkSize(toInteger(this.#line)))) return this.#map;
    }
    return undefined;
  }

  #take(value: number): boolean {
    this.#line = '';
    if (!this.#isCounted) {
      if (value > MAX_EXTENTS) throw new TarError(`a sparse member has more than ${MAX_EXTENTS} extents`);
      this.#isCounted = true;
      this.#numbersLeft = 2 * value;
      return value === 0;
    }
    if (this.#offset === undefined) this.#offset = value;
    else {
      this.#map.add(this.#offset, value);
      this.#offset = undefined;
    }
    this.#numbersLeft -= 1;
    return this.#numbersLeft === 0;
  }
}
