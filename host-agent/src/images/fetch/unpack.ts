// Extracts an OCI layout from an archive without skopeo, which would follow the archive's symbolic links out of its
// directory, into the blobs of all images (tar slip).
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { showName, type TarEntry, TarError, TarReader, type TarSink } from '@sandboxd/proto';
import { AppError } from '../../lib/errors.ts';

type Step = { readonly make: string } | { readonly bytes: Buffer } | 'end';

/** The only files of a layout that are extracted. */
const LAYOUT_FILE = /^(?:oci-layout|index\.json|blobs\/sha256\/[\da-f]{64})$/;
const MAX_FILES = 10_000;
const CHUNK_BYTES = 1 << 20;

/**
 * Extracts into the new directory `dir`; of two files with one name the later one wins. AppError invalid_argument for a
 * damaged archive.
 */
export async function unpackLayout(path: string, dir: string, signal?: AbortSignal): Promise<void> {
  await mkdir(join(dir, 'blobs/sha256'), { recursive: true, mode: 0o700 });
  const collector = new Collector();
  const reader = new TarReader(collector);
  const writer = new Writer(dir);
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES, signal })) {
      reader.push(chunk as Buffer);
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

/** Queues the write steps for the members received so far. */
class Collector implements TarSink {
  #steps: Step[] = [];
  #files = 0;
  #isLayoutFile = false;

  begin({ type, name, sizeBytes, contentBytes }: TarEntry): void {
    const plain = name.replace(/^(?:\.?\/)+/, '');
    this.#isLayoutFile = LAYOUT_FILE.test(plain);
    if (!this.#isLayoutFile) return;
    if (type !== 'file' || sizeBytes !== contentBytes)
      throw new TarError(`${showName(name)} is no plain file, and all of an OCI layout are`);
    this.#files += 1;
    if (this.#files > MAX_FILES) throw new TarError(`it has more than ${MAX_FILES} blobs`);
    this.#steps.push({ make: plain });
  }

  content(bytes: Buffer): void {
    if (this.#isLayoutFile) this.#steps.push({ bytes });
  }

  finish(): void {
    if (this.#isLayoutFile) this.#steps.push('end');
    this.#isLayoutFile = false;
  }

  /** The bytes are valid only until the next chunk is parsed, so write all steps before that. */
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
