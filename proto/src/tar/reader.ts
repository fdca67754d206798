// Reads a tar archive in chunks of any size. Each byte is read once, and only headers are buffered.
// Not tar-stream: docs/measurements/tar.md has the pairs, and what it loses (byte names, attributes, sparse files).
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

/** Receives an archive's members in order. `push` rethrows its errors. */
export interface TarSink {
  /** `attributes`: only of a reader with `hasAttributes`. */
  begin(entry: TarEntry, attributes?: MemberAttributes): void;
  /** Content of the current file; `position` is its offset. `bytes` is borrowed. */
  content(bytes: Buffer, position: number): void;
  finish(): void;
}

/** The kind of each member type, and whether its header's size is a content size. */
const TYPES: Readonly<
  Record<string, { readonly type: TarEntry['type'] | 'nothing'; readonly hasContent: boolean }>
> = {
  '0': { type: 'file', hasContent: true },
  '7': { type: 'file', hasContent: true },
  S: { type: 'file', hasContent: true },
  // The size is that of the linked file, or of the link's target text; no content follows.
  '1': { type: 'link', hasContent: false },
  '2': { type: 'symlink', hasContent: false },
  '3': { type: 'character-device', hasContent: false },
  '4': { type: 'block-device', hasContent: false },
  '5': { type: 'directory', hasContent: false },
  '6': { type: 'fifo', hasContent: false },
  // A GNU dump's directory with a list of its names; a volume label.
  D: { type: 'directory', hasContent: true },
  V: { type: 'nothing', hasContent: true },
};
const OLD_DIRECTORY = { type: 'directory', hasContent: true } as const;

type State =
  | 'header'
  | 'extension'
  /** Further extents of GNU's sparse header. */
  | 'sparse-header'
  /** The map at the start of the content. */
  | 'sparse-map'
  | 'content'
  | 'padding'
  | 'ended';

const SET_ID_BITS = 0o6000;

export class TarReader {
  readonly #sink: TarSink;
  readonly #hasAttributes: boolean;
  readonly #isForRoot: boolean;
  readonly #dropsSetId: boolean;
  readonly #extensions = new Extensions();
  readonly #block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
  #blockBytes = 0;
  #state: State = 'header';
  #zeroBlocks = 0;
  /** Current member: its last header, its extents, and the bytes left of its content or padding. */
  #header: ResolvedHeader | undefined;
  #attributes: MemberAttributes | undefined;
  #sparse: SparseMap | undefined;
  #sparseMap: MapInContent | undefined;
  #left = 0;
  #position = 0;
  #isFile = false;
  #extension: { readonly header: TarHeader; readonly chunks: Buffer[] } | undefined;

  /**
   * `isForRoot`: all members will belong to root, regardless of their owner in the archive; with `dropsSetId`, to
   * another user.
   */
  constructor(sink: TarSink, { hasAttributes = false, isForRoot = false, dropsSetId = false } = {}) {
    this.#sink = sink;
    this.#dropsSetId = dropsSetId;
    this.#hasAttributes = hasAttributes;
    this.#isForRoot = isForRoot;
  }

  /** Throws TarError and the sink's errors; the reader is unusable then. Bytes after the archive are ignored. */
  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length && this.#state !== 'ended'; ) {
      if (this.#state === 'content') at += this.#takeContent(chunk, at);
      else if (this.#state === 'padding') at += this.#takePadding(chunk.length - at);
      else if (this.#state === 'extension') at += this.#takeExtension(chunk, at);
      else at += this.#takeBlock(chunk, at);
    }
  }

  /** Remaining content of a file, if it is contiguous and not sparse. */
  get plainContentLeft(): number {
    return this.#state === 'content' && this.#isFile && this.#sparse === undefined ? this.#left : 0;
  }

  /** Skips bytes of that content that were handled elsewhere; the sink does not get them. */
  skipContent(bytes: number): void {
    this.#position += bytes;
    this.#left -= bytes;
    if (this.#left === 0) this.#endContent();
  }

  /** Whether the archive may end here for a tool that omits the end mark and the padding of the last block. */
  get isBetweenMembers(): boolean {
    if (this.#state === 'ended' || this.#state === 'padding') return true;
    return this.#state === 'header' && this.#blockBytes === 0;
  }

  /** Marks the end of the input. Throws TarError for a truncated archive. */
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

  /** Whole blocks are used in place; only a block that spans two chunks is copied. */
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
    this.#extension = { header, chunks: [] };
    this.#state = 'extension';
    if (this.#left === 0) this.#endExtension();
  }

  #takeExtension(chunk: Buffer, at: number): number {
    const bytes = Math.min(this.#left, chunk.length - at);
    this.#extension?.chunks.push(Buffer.from(chunk.subarray(at, at + bytes)));
    this.#left -= bytes;
    if (this.#left === 0) this.#endExtension();
    return bytes;
  }

  #endExtension(): void {
    if (this.#extension === undefined) return;
    const { header, chunks } = this.#extension;
    this.#extension = undefined;
    this.#extensions.add(header.flag, Buffer.concat(chunks));
    this.#pad(header.sizeBytes);
  }

  #onMember(plain: TarHeader, block: Buffer): void {
    const found = this.#extensions.apply(plain);
    const { pax } = this.#extensions;
    const kept = this.#dropsSetId ? found.mode & ~SET_ID_BITS : found.mode;
    const header = this.#isForRoot ? { ...found, mode: modeForRoot(kept, block, pax) } : found;
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

  /** Begins a member after all of its headers, including its extents, were read. */
  #begin(): void {
    const header = this.#header;
    if (header === undefined) return;
    const { flag, name } = header;
    if (flag === 'M')
      throw new TarError(`${showName(name)} continues a file of another archive, which is not here`);
    // Old archives have no type for directories and mark them with a trailing slash.
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

  /** The padding follows the whole content, including a map. */
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
