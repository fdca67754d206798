// Extended headers that precede a member: PAX records, global PAX records, and GNU long names.
import { TarError } from './entry.ts';
import { checkSize, type TarHeader } from './header.ts';
import { type PaxRecords, parseTime, readPax, toInteger } from './pax.ts';

/**
 * Maximum of the extended headers of one member, and of all global ones: names are much shorter, but some archivers
 * store file attributes there.
 */
const MAX_EXTENSION_BYTES = 1024 * 1024;

export type ResolvedHeader = TarHeader & { readonly mtimeNanos: number };

/** Each member with records of its own copies the global ones, so many of them would take hours of CPU time. */
const MAX_GLOBAL_RECORDS = 100;

const FLAGS = 'xXgLK';

export class Extensions {
  readonly #globals: PaxRecords = new Map();
  #pax: PaxRecords = this.#globals;
  #longName: string | undefined;
  #longTarget: string | undefined;
  #memberBytes = 0;
  #globalBytes = 0;

  /** Whether a header of this type is an extended header. Throws TarError when its content is too long. */
  static takes({ flag, sizeBytes }: TarHeader): boolean {
    if (!FLAGS.includes(flag)) return false;
    if (sizeBytes <= MAX_EXTENSION_BYTES) return true;
    throw new TarError(
      `an extended header of ${sizeBytes} bytes is too long; at most ${MAX_EXTENSION_BYTES} are taken`,
    );
  }

  /** Records of the next member, including the global ones. */
  get pax(): PaxRecords {
    return this.#pax;
  }

  /** Adds the complete content of an extended header. Throws TarError. */
  add(flag: string, bytes: Buffer): void {
    if (flag === 'g') this.#globalBytes += bytes.length;
    else this.#memberBytes += bytes.length;
    if (this.#memberBytes > MAX_EXTENSION_BYTES || this.#globalBytes > MAX_EXTENSION_BYTES)
      throw new TarError(`extended headers have more than ${MAX_EXTENSION_BYTES} bytes together`);
    if (flag === 'L') this.#longName = untilZero(bytes);
    else if (flag === 'K') this.#longTarget = untilZero(bytes);
    else if (flag === 'g') {
      readPax(bytes, this.#globals);
      if (this.#globals.size > MAX_GLOBAL_RECORDS)
        throw new TarError(`the archive has more than ${MAX_GLOBAL_RECORDS} global records`);
    } else {
      if (this.#pax === this.#globals) this.#pax = new Map(this.#globals);
      readPax(bytes, this.#pax);
    }
  }

  /** Applies the extended headers to the member's header. Throws TarError. */
  apply(header: TarHeader): ResolvedHeader {
    const pax = this.#pax;
    const plain = {
      ...header,
      mtimeNanos: 0,
      name: this.#longName ?? header.name,
      target: this.#longTarget ?? header.target,
    };
    if (pax.size === 0) return plain;
    const size = pax.get('size');
    const mtime = pax.get('mtime');
    const time = mtime === undefined ? undefined : parseTime(mtime);
    return {
      ...plain,
      name: pax.get('GNU.sparse.name') ?? pax.get('path') ?? plain.name,
      target: pax.get('linkpath') ?? plain.target,
      sizeBytes: size === undefined ? header.sizeBytes : checkSize(toInteger(size)),
      mtimeSeconds: time?.seconds ?? header.mtimeSeconds,
      mtimeNanos: time?.nanos ?? 0,
    };
  }

  /** Resets the records of the last member. */
  clear(): void {
    this.#pax = this.#globals;
    this.#longName = undefined;
    this.#longTarget = undefined;
    this.#memberBytes = 0;
  }
}

function untilZero(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  return bytes.toString('latin1', 0, end < 0 ? bytes.length : end);
}
