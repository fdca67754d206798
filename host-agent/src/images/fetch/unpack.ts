// An OCI layout out of an archive, by ourselves: what fetches images would follow the archive's own links out of its directory,
// into the blobs of all images.
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { showName, type TarEntry, TarError, TarReader, type TarSink } from '@sandboxd/proto';
import { AppError } from '../../lib/errors.ts';

type Step = { readonly make: string } | { readonly bytes: Buffer } | 'end';

/** All that a layout has. */
const WANTED = /^(?:oci-layout|index\.json|blobs\/sha256\/[\da-f]{64})$/;
const MAX_FILES = 10_000;
const CHUNK_BYTES = 1 << 20;

/** Makes the directory `dir` of it; of two files of one name the later one counts. AppError invalid_argument for what is damaged. */
export async function unpackLayout(path: string, dir: string, signal?: AbortSignal): Promise<void> {
  await mkdir(join(dir, 'blobs/sha256'), { recursive: true, mode: 0o700 });
  const collector = new Collector();
  const reader = new TarReader(collector);
  const writer = new Writer(dir);
  try {
    for await (const piece of createReadStream(path, { highWaterMark: CHUNK_BYTES, signal })) {
      reader.push(piece as Buffer);
      for (const step of collector.take()) await writer.write(step);
    }
    reader.end();
    for (const step of collector.take()) await writer.write(step);
  } catch (error) {
    if (!(error instanceof TarError)) throw error;
    throw new AppError('invalid_argument', `the archive of images: ${error.message}`, { cause: error });
  } finally {
    await writer.close();
  }
}

/** What is to be done for the members that came. */
class Collector implements TarSink {
  #steps: Step[] = [];
  #files = 0;
  #isWanted = false;

  begin({ type, name, sizeBytes, contentBytes }: TarEntry): void {
    const plain = name.replace(/^(?:\.?\/)+/, '');
    this.#isWanted = WANTED.test(plain);
    if (!this.#isWanted) return;
    if (type !== 'file' || sizeBytes !== contentBytes)
      throw new TarError(`${showName(name)} is no plain file, and all of an OCI layout are`);
    this.#files += 1;
    if (this.#files > MAX_FILES) throw new TarError(`it has more than ${MAX_FILES} blobs`);
    this.#steps.push({ make: plain });
  }

  content(bytes: Buffer): void {
    if (this.#isWanted) this.#steps.push({ bytes });
  }

  finish(): void {
    if (this.#isWanted) this.#steps.push('end');
    this.#isWanted = false;
  }

  /** Bytes are only lent: all must be done before the archive is read on. */
  take(): Step[] {
    return this.#steps.splice(0);
  }
}

class Writer {
  readonly #dir: string;
  #file: FileHandle | undefined;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async write(step: Step): Promise<void> {
    if (step === 'end') await this.close();
    else if ('make' in step) this.#file = await open(join(this.#dir, step.make), 'w', 0o600);
    else await this.#file?.writeFile(step.bytes);
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }
}
