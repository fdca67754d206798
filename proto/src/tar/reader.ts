// A tar archive as it comes, in pieces of any size: every byte is looked at once and none is kept, but for headers.
// Not tar-stream: it makes a stream of each member, reads names as UTF-8 (others are lost), and knows no sparse files.
import { type MemberAttributes, modeForRoot, readAttributes } from './attributes.ts';
import { BLOCK_BYTES, paddingAfter, showName, type TarEntry, TarError } from './entry.ts';
import { Extensions, type ResolvedHeader } from './extensions.ts';
import { parseHeader, type TarHeader } from './header.ts';
import {
  hasMapInContent,
  MapInContent,
  readGnuSparse,
  readMoreGnuSparse,
  readPaxSparse,
  type SparseMap,
} from './sparse.ts';

/** Gets an archive's members in turn. What it throws comes out of `push`. */
export interface TarSink {
  /** `attributes`: of a reader that was asked for them. */
  begin(entry: TarEntry, attributes?: MemberAttributes): void;
  /** Some content of the file that began; `position` is where it belongs. `bytes` are only lent. */
  content(bytes: Buffer, position: number): void;
  finish(): void;
}

/** What is made of each type of member, and whether its header's size is that of content. */
const TYPES: Readonly<
  Record<string, { readonly type: TarEntry['type'] | 'nothing'; readonly hasContent: boolean }>
> = {
  '0': { type: 'file', hasContent: true },
  '7': { type: 'file', hasContent: true },
  S: { type: 'file', hasContent: true },
  // The size is that of the file which the link names, or the length of its target; nothing follows it.
  '1': { type: 'link', hasContent: false },
  '2': { type: 'symlink', hasContent: false },
  '3': { type: 'character-device', hasContent: false },
  '4': { type: 'block-device', hasContent: false },
  '5': { type: 'directory', hasContent: false },
  '6': { type: 'fifo', hasContent: false },
  // A directory with a list of its names (GNU dumps), and the name of a volume.
  D: { type: 'directory', hasContent: true },
  V: { type: 'nothing', hasContent: true },
};
const OLD_DIRECTORY = { type: 'directory', hasContent: true } as const;

type State =
  | 'header'
  | 'extension'
  /** More extents of GNU's sparse header. */
  | 'sparse-header'
  /** The map that the content begins with. */
  | 'sparse-map'
  | 'content'
  | 'padding'
  | 'ended';

export class TarReader {
  readonly #sink: TarSink;
  readonly #hasAttributes: boolean;
  readonly #isForRoot: boolean;
  readonly #extensions = new Extensions();
  readonly #block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
  #blockBytes = 0;
  #state: State = 'header';
  #zeroBlocks = 0;
  /** Of what is being read: the last header, its extents, and the bytes left of its content or padding. */
  #header: ResolvedHeader | undefined;
  #attributes: MemberAttributes | undefined;
  #sparse: SparseMap | undefined;
  #sparseMap: MapInContent | undefined;
  #left = 0;
  #position = 0;
  #isFile = false;
  #extension: { readonly header: TarHeader; readonly pieces: Buffer[] } | undefined;

  /** `isForRoot`: members become root's, whoever had them. */
  constructor(sink: TarSink, { hasAttributes = false, isForRoot = false } = {}) {
    this.#sink = sink;
    this.#hasAttributes = hasAttributes;
    this.#isForRoot = isForRoot;
  }

  /** Throws TarError, and what the sink throws; the reader is of no use then. What follows the archive is ignored. */
  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length && this.#state !== 'ended'; ) {
      if (this.#state === 'content') at += this.#takeContent(chunk, at);
      else if (this.#state === 'padding') at += this.#takePadding(chunk.length - at);
      else if (this.#state === 'extension') at += this.#takeExtension(chunk, at);
      else at += this.#takeBlock(chunk, at);
    }
  }

  /** Content of a file that is still to come, in one piece that stays where it is in the file. */
  get plainContentLeft(): number {
    return this.#state === 'content' && this.#isFile && this.#sparse === undefined ? this.#left : 0;
  }

  /** At most so many bytes of that content were dealt with elsewhere; the sink is told nothing of them. */
  skipContent(bytes: number): void {
    this.#position += bytes;
    this.#left -= bytes;
    if (this.#left === 0) this.#endContent();
  }

  /** Whether the archive may end here for those who do without its end mark, and without what fills the last block. */
  get isBetweenMembers(): boolean {
    if (this.#state === 'ended' || this.#state === 'padding') return true;
    return this.#state === 'header' && this.#blockBytes === 0;
  }

  /** No byte follows. Throws TarError for an archive that was cut off. */
  end(): void {
    const isAtBlock = this.#state === 'header' && this.#blockBytes === 0;
    if (this.#state === 'ended' || (isAtBlock && this.#zeroBlocks > 0)) return;
    if (isAtBlock && this.#header === undefined)
      throw new TarError('the body is empty; send a tar archive, plain or gzip');
    const place =
      this.#header === undefined
        ? 'within its first header'
        : `within or behind ${showName(this.#header.name)}`;
    throw new TarError(`the archive is cut off ${place}: its end mark did not come`);
  }

  /** Whole blocks are used where they are; only one that is split between chunks is copied. */
  #takeBlock(chunk: Buffer, at: number): number {
    const bytes = Math.min(BLOCK_BYTES - this.#blockBytes, chunk.length - at);
    if (bytes === BLOCK_BYTES) {
      this.#onBlock(chunk.subarray(at, at + BLOCK_BYTES));
      return bytes;
    }
    chunk.copy(this.#block, this.#blockBytes, at, at + bytes);
    this.#blockBytes += bytes;
    if (this.#blockBytes === BLOCK_BYTES) {
      this.#blockBytes = 0;
      this.#onBlock(this.#block);
    }
    return bytes;
  }

  #onBlock(block: Buffer): void {
    if (this.#state === 'sparse-header') {
      if (this.#sparse !== undefined && !readMoreGnuSparse(this.#sparse, block)) this.#begin();
    } else if (this.#state === 'sparse-map') {
      this.#left -= BLOCK_BYTES;
      if (this.#left < 0) throw new TarError('the archive is damaged: the map of a sparse member has no end');
      this.#sparse = this.#sparseMap?.push(block);
      if (this.#sparse !== undefined) this.#begin();
    } else this.#onHeader(block);
  }

  #onHeader(block: Buffer): void {
    const header = parseHeader(block);
    if (header === undefined) {
      this.#zeroBlocks += 1;
      if (this.#zeroBlocks === 2) this.#state = 'ended';
      return;
    }
    this.#zeroBlocks = 0;
    this.#left = header.sizeBytes;
    if (!Extensions.takes(header)) {
      this.#onMember(header, block);
      return;
    }
    this.#extension = { header, pieces: [] };
    this.#state = 'extension';
    if (this.#left === 0) this.#endExtension();
  }

  #takeExtension(chunk: Buffer, at: number): number {
    const bytes = Math.min(this.#left, chunk.length - at);
    this.#extension?.pieces.push(Buffer.from(chunk.subarray(at, at + bytes)));
    this.#left -= bytes;
    if (this.#left === 0) this.#endExtension();
    return bytes;
  }

  #endExtension(): void {
    if (this.#extension === undefined) return;
    const { header, pieces } = this.#extension;
    this.#extension = undefined;
    this.#extensions.add(header.flag, Buffer.concat(pieces));
    this.#pad(header.sizeBytes);
  }

  #onMember(plain: TarHeader, block: Buffer): void {
    const found = this.#extensions.apply(plain);
    const { pax } = this.#extensions;
    const header = this.#isForRoot ? { ...found, mode: modeForRoot(found.mode, block, pax) } : found;
    this.#header = header;
    if (this.#hasAttributes) this.#attributes = readAttributes(block, header.flag, pax);
    this.#left = header.sizeBytes;
    this.#sparse = undefined;
    if (header.flag === 'S') {
      const { map, hasMore } = readGnuSparse(block);
      this.#sparse = map;
      this.#state = 'sparse-header';
      if (!hasMore) this.#begin();
    } else if (hasMapInContent(pax)) {
      this.#sparseMap = new MapInContent(pax);
      this.#state = 'sparse-map';
    } else {
      this.#sparse = readPaxSparse(pax);
      this.#begin();
    }
    this.#extensions.clear();
  }

  /** Everything is known of the member, its extents included. */
  #begin(): void {
    const header = this.#header;
    if (header === undefined) return;
    const { flag, name } = header;
    if (flag === 'M')
      throw new TarError(`${showName(name)} continues a file of another archive, which is not here`);
    // Old archives say by a slash what they have no type for.
    const kind = flag === '0' && name.endsWith('/') ? OLD_DIRECTORY : TYPES[flag];
    if (kind === undefined)
      throw new TarError(`${showName(name)} is of the type ${JSON.stringify(flag)}, which is not known`);
    const { type, hasContent } = kind;
    if (!hasContent) this.#left = 0;
    this.#isFile = type === 'file';
    if (!this.#isFile) this.#sparse = undefined;
    this.#sparse?.check(this.#left);
    if (type !== 'nothing') {
      const { target, mode, mtimeSeconds, mtimeNanos } = header;
      const sizeBytes = this.#isFile ? (this.#sparse?.sizeBytes ?? this.#left) : 0;
      const entry = {
        type,
        name,
        target,
        mode,
        mtimeSeconds,
        mtimeNanos,
        sizeBytes,
        contentBytes: this.#isFile ? this.#left : 0,
      };
      this.#sink.begin(entry, this.#attributes);
      if (!this.#isFile) this.#sink.finish();
    }
    this.#position = 0;
    this.#state = 'content';
    if (this.#left === 0) this.#endContent();
  }

  #takeContent(chunk: Buffer, at: number): number {
    let bytes = Math.min(this.#left, chunk.length - at);
    if (this.#isFile) {
      let position = this.#position;
      if (this.#sparse !== undefined) ({ position, bytes } = this.#sparse.next(bytes));
      this.#sink.content(chunk.subarray(at, at + bytes), position);
    }
    this.#position += bytes;
    this.#left -= bytes;
    if (this.#left === 0) this.#endContent();
    return bytes;
  }

  #endContent(): void {
    if (this.#isFile) this.#sink.finish();
    this.#isFile = false;
    this.#pad(this.#position);
  }

  /** What was read began at a block, whatever part of it was a map. */
  #pad(sizeBytes: number): void {
    this.#left = paddingAfter(sizeBytes);
    this.#state = this.#left === 0 ? 'header' : 'padding';
  }

  #takePadding(available: number): number {
    const bytes = Math.min(this.#left, available);
    this.#left -= bytes;
    if (this.#left === 0) this.#state = 'header';
    return bytes;
  }
}
