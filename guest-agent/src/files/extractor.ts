// Creates an archive's members below a destination. Existing files are replaced, as in tar; existing directories are
// kept.
import { constants } from 'node:os';
import { AgentError, showName, type TarEntry, TarError, type TarSink } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';
import { type Destination, normalize } from './destination.ts';
import { fileError } from './errors.ts';

/** Directories whose times are set after their content. Above this count, the oldest get their times at once. */
const MAX_WAITING_DIRECTORIES = 20_000;
const { EEXIST, ELOOP, ENOENT, ENOTDIR, EPERM, EXDEV } = constants.errno;
const NOTHING = Buffer.alloc(0);
/**
 * From this size on, files bypass the page cache (O_DIRECT) where the file system supports it: in emulated guests,
 * where this is several times faster (docs/measurements/bulk-bytes.md), and where the layer is mounted with nodelalloc,
 * whose price is paid for each page of the cache (docs/measurements/nodelalloc.md). The addon writes these files in any
 * case.
 */
const DIRECT_BYTES = 256 * 1024;

/** Archives contain these by accident; none of them is created. */
const DEVICES: Readonly<Partial<Record<TarEntry['type'], string>>> = {
  'character-device': 'a character device',
  'block-device': 'a block device',
  fifo: 'a FIFO',
};

type OpenFile = {
  readonly fd: number;
  readonly entry: TarEntry;
  readonly parts: readonly string[];
  writtenTo: number;
  /** The addon writes this file sequentially. */
  isDirect: boolean;
};

export class Extractor implements TarSink {
  readonly #destination: Destination;
  readonly #writesDirect: boolean;
  readonly #directories = new Map<string, TarEntry>();
  #entry: TarEntry | undefined;
  #parts: readonly string[] = [];
  #isMade = false;
  #file: OpenFile | undefined;
  #files = 0;
  #bytes = 0;

  /** Takes ownership of the destination. `writesDirect`: large files bypass the page cache. */
  constructor(destination: Destination, writesDirect: boolean) {
    this.#destination = destination;
    this.#writesDirect = writesDirect;
  }

  /** Regular files created so far, and content bytes written. */
  get counts(): { readonly files: number; readonly bytes: number } {
    return { files: this.#files, bytes: this.#bytes };
  }

  /** Descriptor of the file that the addon currently writes sequentially, if any. */
  get directFile(): number | undefined {
    return this.#file?.isDirect === true ? this.#file.fd : undefined;
  }

  /** Records that native code wrote this many bytes to that file, after the bytes passed to `content`. */
  wrote(bytes: number): void {
    if (this.#file !== undefined) this.#file.writtenTo += bytes;
    this.#bytes += bytes;
  }

  /** Reports that native code could not write. */
  failed(errno: number): never {
    throw fileError(-errno, this.#entry?.name ?? '');
  }

  begin(entry: TarEntry): void {
    const device = DEVICES[entry.type];
    if (device !== undefined)
      throw new TarError(
        `${showName(entry.name)} is ${device}, which may not be in an archive that is pushed`,
      );
    this.#entry = entry;
    this.#parts = normalize(entry.name);
    this.#isMade = false;
    if (entry.type === 'directory') this.#makeDirectory(entry);
    else if (this.#parts.length === 0)
      throw new AgentError(
        'invalid',
        `${showName(entry.name)} is the destination itself, and no directory in the archive`,
      );
    else if (entry.type === 'symlink') this.#makeSymlink(entry);
    else if (entry.type === 'link') this.#makeLink(entry);
  }

  content(bytes: Buffer, position: number): void {
    const entry = this.#entry;
    if (entry === undefined) return;
    if (this.#file === undefined && position === 0 && bytes.length === entry.sizeBytes) {
      this.#putFile(entry, bytes);
    } else {
      this.#file ??= this.#createFile(entry);
      const written = write(this.#file, bytes, position);
      if (written < 0) throw fileError(written, entry.name);
      this.#file.writtenTo = position + bytes.length;
    }
    this.#bytes += bytes.length;
  }

  finish(): void {
    const entry = this.#entry;
    if (entry?.type !== 'file') return;
    if (!this.#isMade && this.#file === undefined) {
      if (entry.sizeBytes === 0) this.#putFile(entry, NOTHING);
      else this.#file = this.#createFile(entry);
    }
    if (this.#file !== undefined) this.#finishFile(this.#file);
    this.#files += 1;
    this.#entry = undefined;
  }

  /** To be called once, last. Removes an incomplete file. Sets the times and modes of directories. */
  close(): void {
    if (this.#file !== undefined) this.#dropFile(this.#file);
    for (const [path, entry] of this.#directories) this.#finishDirectory(path, entry);
    this.#directories.clear();
    this.#destination.close();
  }

  #dropFile(file: OpenFile): void {
    const { fd, parts } = file;
    this.#file = undefined;
    endDirect(file);
    addon.close(fd);
    this.#remove(parts);
  }

  #remove(parts: readonly string[]): void {
    const parent = this.#destination.openParent(parts);
    if (parent < 0) return;
    addon.removeFile(parent, parts.at(-1) ?? '');
    addon.close(parent);
  }

  #putFile(entry: TarEntry, bytes: Buffer): void {
    const { parent, leaf } = this.#destination.place(this.#parts);
    const { mode, mtimeSeconds, mtimeNanos } = entry;
    const result = addon.putFile(parent, leaf, bytes, 0, bytes.length, mode, mtimeSeconds, mtimeNanos);
    if (result < 0) throw fileError(result, entry.name);
    this.#isMade = true;
  }

  #createFile(entry: TarEntry): OpenFile {
    const { parent, leaf } = this.#destination.place(this.#parts);
    const fd = addon.createFile(parent, leaf);
    if (fd < 0) throw fileError(fd, entry.name);
    const isLarge = this.#writesDirect && entry.sizeBytes >= DIRECT_BYTES;
    const isDirect = isLarge && addon.startDirectWrite(fd, entry.sizeBytes);
    return { fd, entry, parts: this.#parts, writtenTo: 0, isDirect };
  }

  #finishFile(file: OpenFile): void {
    const { fd, entry, parts, writtenTo } = file;
    const { sizeBytes, mode, mtimeSeconds, mtimeNanos } = entry;
    const ended = endDirect(file);
    if (ended < 0) throw fileError(ended, entry.name);
    const size = writtenTo === sizeBytes ? -1 : sizeBytes;
    const result = addon.finishFile(fd, size, mode, mtimeSeconds, mtimeNanos);
    this.#file = undefined;
    if (result === 0) return;
    this.#remove(parts);
    throw fileError(result, entry.name);
  }

  #makeDirectory(entry: TarEntry): void {
    // An existing destination is left unchanged: many archives contain `./`, and their senders do not mean /tmp by it.
    if (this.#parts.length === 0) {
      if (this.#destination.isNew) this.#directories.set('', entry);
      return;
    }
    const { parent, leaf } = this.#destination.place(this.#parts);
    let result = addon.addDirectory(parent, leaf);
    if (result === -EEXIST) {
      result = this.#destination.openDirectory(this.#parts);
      if (result >= 0) addon.close(result);
      else if (result === -ENOTDIR || result === -ENOENT || result === -ELOOP) {
        // A file, or a link that is dangling or not followed, is replaced.
        result = addon.removeFile(parent, leaf);
        if (result === 0) result = addon.addDirectory(parent, leaf);
      }
    }
    if (result < 0) throw fileError(result, entry.name);
    const path = this.#parts.join('/');
    this.#directories.set(path, entry);
    if (this.#directories.size <= MAX_WAITING_DIRECTORIES) return;
    for (const [oldest, waiting] of this.#directories) {
      this.#directories.delete(oldest);
      this.#finishDirectory(oldest, waiting);
      break;
    }
  }

  /** A directory that was removed, or moved outside, is skipped. */
  #finishDirectory(path: string, { mode, mtimeSeconds, mtimeNanos }: TarEntry): void {
    const fd = this.#destination.openDirectory(path.split('/'));
    if (fd >= 0) addon.finishFile(fd, -1, mode, mtimeSeconds, mtimeNanos);
  }

  #makeSymlink({ name, target, mtimeSeconds, mtimeNanos }: TarEntry): void {
    if (target === '' || target.includes('\0') || target.length > 4095)
      throw new AgentError(
        'invalid',
        `${showName(name)} is a symbolic link to ${showName(target)}, which is not a file name`,
      );
    const { parent, leaf } = this.#destination.place(this.#parts);
    this.#destination.checkTarget(name, parent, target);
    const result = addon.addSymlink(parent, leaf, target, mtimeSeconds, mtimeNanos);
    if (result < 0) throw fileError(result, name);
  }

  #makeLink({ name, target }: TarEntry): void {
    const targetParts = normalizeTarget(name, target);
    const from = this.#destination.openParent(targetParts);
    if (from < 0) throw fileError(from, target, `${showName(name)} is a hard link, and `);
    try {
      const { parent, leaf } = this.#destination.place(this.#parts);
      const result = addon.addLink(from, targetParts.at(-1) ?? '', parent, leaf);
      if (result === -ENOENT) throw fileError(result, target, `${showName(name)} is a hard link, and `);
      if (result === -EXDEV)
        throw new AgentError('invalid', `${showName(name)} is a hard link to a file on another file system`);
      if (result === -EPERM)
        throw new AgentError(
          'invalid',
          `${showName(name)} is a hard link to a directory, or to a file that may not be linked`,
        );
      if (result < 0) throw fileError(result, name);
    } finally {
      addon.close(from);
    }
  }
}

function write(file: OpenFile, bytes: Buffer, position: number): number {
  if (file.isDirect && position !== file.writtenTo) {
    const ended = endDirect(file);
    if (ended < 0) return ended;
  }
  return file.isDirect
    ? addon.writeDirect(bytes, 0, bytes.length)
    : addon.writeAt(file.fd, bytes, 0, bytes.length, position);
}

/** Switches the file back to ordinary writes. */
function endDirect(file: OpenFile): number {
  if (!file.isDirect) return 0;
  file.isDirect = false;
  return addon.endDirectWrite();
}

function normalizeTarget(name: string, target: string): string[] {
  const parts = normalize(target, `${showName(name)} is a hard link, and `);
  if (parts.length > 0) return parts;
  throw new AgentError('invalid', `${showName(name)} is a hard link to the destination itself`);
}
