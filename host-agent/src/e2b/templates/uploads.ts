// Archives for COPY, on the disk of the host from their upload to the end of the build. Those of an earlier daemon are
// removed.
import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { E2bError } from '../errors.ts';

const HASH = /^[0-9a-f]{64}$/;
const MIB = 1024 * 1024;
const MAX_UPLOAD_BYTES = 1024 * MIB;
const MAX_CLIENT_BYTES = 4096 * MIB;
const MAX_TOTAL_BYTES = 16_384 * MIB;
const MAX_CLIENT_FILES = 1000;
const MAX_TOTAL_FILES = 10_000;
/** Left free on the disk of the host. */
const MIN_FREE_BYTES = 1024 * MIB;
/** Written between two samples of what is used and free. */
const CHECK_BYTES = 16 * MIB;

type Upload = { readonly scope: string; readonly sharer: string | undefined; bytes: number };
type Read = () => Promise<Uint8Array | undefined>;

export class Uploads {
  readonly #dir: string;
  /** By path; also those in progress. */
  readonly #all = new Map<string, Upload>();
  readonly #limit = new ConcurrencyLimit({ what: 'uploads of files', max: 16, maxPerClient: 4 });

  constructor(dataDir: string) {
    this.#dir = join(dataDir, 'e2b-uploads');
  }

  /** Removes all. */
  async clear(): Promise<void> {
    this.#all.clear();
    await rm(this.#dir, { recursive: true, force: true });
  }

  /** `scope`: whose files they are. E2bError 400 for a hash of another form. */
  has(scope: string, hash: string): boolean {
    return this.#all.has(this.#path(scope, hash));
  }

  /** The path of an archive. E2bError 400. */
  find(scope: string, hash: string): string {
    const path = this.#path(scope, hash);
    if (this.#all.has(path)) return path;
    throw new E2bError(400, `the files of a COPY were not uploaded: ${hash.slice(0, 64)}`);
  }

  /** All of it or nothing. E2bError 400, 413, 507; AppError exhausted. */
  async write(scope: string, hash: string, sharer: string | undefined, read: Read): Promise<void> {
    const path = this.#path(scope, hash);
    using _slot = this.#limit.acquire(sharer);
    const part = `${path}.${randomBytes(6).toString('hex')}`;
    const upload: Upload = { scope, sharer, bytes: 0 };
    this.#all.set(part, upload);
    try {
      this.#assertFits(upload);
      await mkdir(this.#dir, { recursive: true, mode: 0o700 });
      await this.#receive(part, upload, read);
      this.#assertAwaited(part);
      await rename(part, path);
      this.#all.set(path, upload);
    } finally {
      this.#all.delete(part);
      await rm(part, { force: true });
    }
  }

  /** Those of a scope. */
  async remove(scope: string): Promise<void> {
    for (const [path, upload] of this.#all) {
      if (upload.scope !== scope) continue;
      this.#all.delete(path);
      await rm(path, { force: true });
    }
  }

  async #receive(part: string, upload: Upload, read: Read): Promise<void> {
    const file = await open(part, 'wx', 0o600);
    try {
      let checkedBytes = Number.NEGATIVE_INFINITY;
      for (let chunk = await read(); chunk !== undefined; chunk = await read()) {
        this.#assertAwaited(part);
        upload.bytes += chunk.length;
        if (upload.bytes > MAX_UPLOAD_BYTES)
          throw new E2bError(413, `the files of a COPY have at most ${MAX_UPLOAD_BYTES} bytes as an archive`);
        if (upload.bytes - checkedBytes >= CHECK_BYTES) {
          checkedBytes = upload.bytes;
          this.#assertFits(upload);
          await this.#assertFree();
        }
        for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
      }
    } finally {
      await file.close();
    }
  }

  /** Its build may have ended meanwhile. */
  #assertAwaited(part: string): void {
    if (!this.#all.has(part)) throw new E2bError(404, 'the build is over');
  }

  #assertFits({ sharer }: Upload): void {
    let [own, total, ownFiles] = [0, 0, 0];
    for (const each of this.#all.values()) {
      total += each.bytes;
      if (each.sharer !== sharer) continue;
      own += each.bytes;
      ownFiles += 1;
    }
    const areTooMany = ownFiles > MAX_CLIENT_FILES || this.#all.size > MAX_TOTAL_FILES;
    if (areTooMany || own > MAX_CLIENT_BYTES || total > MAX_TOTAL_BYTES)
      throw new E2bError(507, 'too many files were uploaded for builds that are not finished');
  }

  async #assertFree(): Promise<void> {
    const { bavail, bsize } = await statfs(this.#dir);
    if (bavail * bsize < MIN_FREE_BYTES) throw new E2bError(507, 'the host has too little disk space');
  }

  #path(scope: string, hash: string): string {
    if (HASH.test(hash) && /^tpl[0-9a-f-]+$/.test(scope)) return join(this.#dir, `${scope}-${hash}.tar`);
    throw new E2bError(400, 'the hash of files must be 64 hexadecimal digits');
  }
}

/** Its bytes, in chunks. */
export async function* readArchive(path: string): AsyncGenerator<Uint8Array, void> {
  const file = await open(path, 'r');
  try {
    const { size } = await stat(path);
    for (let at = 0; at < size; ) {
      const { bytesRead, buffer } = await file.read({ buffer: Buffer.allocUnsafe(64 * 1024), position: at });
      if (bytesRead === 0) return;
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}
