// Replaces one file's content: a temporary file, flushed to the disk and renamed, so that readers see the old or the
// new content, and a failure leaves the old one.
import { constants } from 'node:fs';
import { constants as systemConstants } from 'node:os';
import process from 'node:process';
import {
  AgentError,
  type FilePlace,
  type FileWrite,
  type ResultInput,
  type Stream,
  showName,
} from '@sandboxd/proto';
import { readUserFiles, type UserFiles } from '../exec/users.ts';
import { addon } from '../native/addon.ts';
import { type Actor, actAs, findActor } from './as-user.ts';
import { setAttributes } from './attributes.ts';
import { temporaryName } from './copy.ts';
import { Describer } from './entry.ts';
import { fileError } from './errors.ts';
import { Root, type Spot, toPath } from './place.ts';
import {
  freshUs,
  isDirectory,
  isRegular,
  modeOf,
  newStatus,
  ownerOf,
  specialKind,
  versionOf,
} from './status.ts';

const { EEXIST, EIO, EISDIR, ENOENT } = systemConstants.errno;
const FILE_MODE = 0o644;
const PERMISSIONS = 0o777;
const ALL_BITS = 0o7777;

/** Throws AgentError when the file may not be written or a precondition fails. */
export function startFileWrite(stream: Stream, write: FileWrite): void {
  if (!write.place) throw new AgentError('invalid', 'the call names no file');
  const names = readUserFiles();
  const actor = findActor((write.place as FilePlace).user, names);
  new Writing(stream, write, actor, names);
}

class Writing {
  readonly #stream: Stream;
  readonly #write: FileWrite;
  readonly #actor: Actor;
  readonly #names: UserFiles;
  readonly #path: string;
  readonly #spot: Spot;
  readonly #temporary = temporaryName();
  readonly #fd: number;
  #writtenBytes = 0;
  /** A thread uses the descriptor. */
  #isFlushing = false;
  #isOver = false;

  constructor(stream: Stream, write: FileWrite, actor: Actor, names: UserFiles) {
    this.#stream = stream;
    this.#write = write;
    this.#actor = actor;
    this.#names = names;
    const place = write.place as FilePlace;
    this.#path = toPath(place.path);
    [this.#spot, this.#fd] = actAs(actor, () => this.#open(place));
    stream.handlers = {
      data: (_flow, chunk) => this.#attempt(() => this.#take(chunk)),
      end: () => this.#attempt(() => this.#flush()),
      cancel: () => this.#finish({ error: { code: 'cancelled', message: 'the write was cancelled' } }),
      lost: () => this.#finish(undefined),
    };
  }

  #open(place: FilePlace): [Spot, number] {
    using root = new Root(place);
    const spot = this.#find(root);
    try {
      const status = this.#existing(spot);
      this.#checkVersion(status);
      if (status !== undefined) assertWritable(spot, status, this.#path);
      else if (this.#path.endsWith('/')) throw fileError(-EISDIR, this.#path);
      const fd = addon.createFile(spot.parent, this.#temporary);
      if (fd === -ENOENT)
        throw new AgentError(
          'invalid',
          `the file system of ${showName(this.#path)} makes no new files, and a write needs one; use a command`,
        );
      if (fd < 0) throw fileError(fd, this.#path);
      this.#setAttributes(spot, fd);
      return [spot, fd];
    } catch (error) {
      addon.close(spot.parent);
      throw error;
    }
  }

  #setAttributes({ parent }: Spot, fd: number): void {
    try {
      setAttributes(fd, this.#write.attributes, this.#path);
    } catch (error) {
      addon.removeFile(parent, this.#temporary);
      addon.close(fd);
      throw error;
    }
  }

  /** A write that demands an existing file makes no directories for it. */
  #find(root: Root): Spot {
    const { parents, ifMatch } = this.#write;
    if (ifMatch.length === 0) return root.spotOfFile(this.#path, parents);
    try {
      return root.spotOfFile(this.#path);
    } catch (error) {
      if (!(error instanceof AgentError) || error.code !== 'not_found') throw error;
      throw new AgentError('precondition', `${showName(this.#path)} does not exist`);
    }
  }

  #existing({ parent, leaf }: Spot): Float64Array | undefined {
    const status = newStatus();
    return addon.statusAt(parent, leaf, status) < 0 ? undefined : status;
  }

  #checkVersion(status: Float64Array | undefined): void {
    const { ifMatch, ifNoneMatch } = this.#write;
    const has = (versions: readonly string[]): boolean =>
      status !== undefined && (versions.includes('*') || versions.includes(versionOf(status)));
    if (ifMatch.length > 0 && !has(ifMatch))
      throw new AgentError(
        'precondition',
        status === undefined
          ? `${showName(this.#path)} does not exist`
          : `${showName(this.#path)} has been changed: it has another ETag`,
      );
    if (ifNoneMatch.length > 0 && has(ifNoneMatch)) throw this.#alreadyExists();
  }

  #alreadyExists(): AgentError {
    return new AgentError('precondition', `${showName(this.#path)} exists`);
  }

  #take(chunk: Buffer): void {
    const written = addon.writeAt(this.#fd, chunk, 0, chunk.length, this.#writtenBytes);
    if (written < 0) throw fileError(written, this.#path);
    this.#writtenBytes += chunk.length;
    this.#stream.consumed(chunk.length);
  }

  #flush(): void {
    // In a thread: a flush takes as long as the disk.
    this.#isFlushing = true;
    process.getBuiltinModule('node:fs').fsync(this.#fd, (error) => {
      this.#isFlushing = false;
      if (this.#isOver) this.#close();
      this.#attempt(() => {
        if (error !== null) throw fileError(error.errno ?? -EIO, this.#path);
        this.#publish();
      });
    });
  }

  #publish(): void {
    const status = actAs(this.#actor, () => this.#rename());
    const { parent } = this.#spot;
    const directory = addon.openBeneath(parent, '.', constants.O_RDONLY | constants.O_DIRECTORY, 0);
    const done = (): void => {
      if (directory >= 0) addon.close(directory);
      this.#answer(status);
    };
    if (directory < 0) done();
    else process.getBuiltinModule('node:fs').fsync(directory, done);
  }

  /** Sets the attributes, and puts the file in its place. The status of the file in place. */
  #rename(): Float64Array {
    const { parent, leaf } = this.#spot;
    const existing = this.#existing(this.#spot);
    this.#checkVersion(existing);
    if (existing !== undefined) assertWritable(this.#spot, existing, this.#path);
    const must = (result: number): void => {
      if (result < 0) throw fileError(result, this.#path);
    };
    if (existing !== undefined && this.#actor.uid === 0) {
      const { uid, gid } = ownerOf(existing);
      must(addon.changeOwner(this.#fd, uid, gid));
    }
    const mode = this.#write.mode ?? (existing === undefined ? FILE_MODE : modeOf(existing) & PERMISSIONS);
    must(addon.changeMode(this.#fd, mode & ALL_BITS));
    const isNew = this.#write.ifNoneMatch.includes('*');
    const renamed = addon.renameEntry(parent, this.#temporary, parent, leaf, isNew ? 0 : 1);
    if (renamed === -EEXIST) throw this.#alreadyExists();
    must(renamed);
    const status = newStatus();
    must(addon.statusOf(this.#fd, status));
    return status;
  }

  /** Once no later change can have the same time stamp. */
  #answer(status: Float64Array): void {
    const waitMs = Math.ceil(freshUs(status, addon.coarseClock()) / 1000);
    if (waitMs > 0) setTimeout(() => this.#answer(status), waitMs);
    else this.#finish({ fileCall: { entry: new Describer(this.#names).describe(status) } });
  }

  /** Runs a step. An error becomes the call's result. */
  #attempt(step: () => void): void {
    if (this.#isOver) return;
    try {
      step();
    } catch (error) {
      if (!(error instanceof AgentError)) {
        this.#finish(undefined);
        throw error;
      }
      this.#finish({ error: { code: error.code, message: error.message } });
    }
  }

  #finish(result: ResultInput | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (!this.#isFlushing) this.#close();
    if (result !== undefined) this.#stream.finish(result);
  }

  #close(): void {
    const { parent } = this.#spot;
    // Gone already if it is in its place.
    actAs(this.#actor, () => addon.removeFile(parent, this.#temporary));
    addon.close(this.#fd);
    addon.close(parent);
  }
}

/** What exists must be a file that the user may write. Throws AgentError. */
function assertWritable({ parent, leaf }: Spot, status: Float64Array, path: string): void {
  if (isDirectory(status)) throw new AgentError('is_directory', `${showName(path)} is a directory`);
  if (!isRegular(status))
    throw new AgentError('invalid', `${showName(path)} is ${specialKind(status)}; only files can be written`);
  const result = addon.mayWrite(parent, leaf);
  if (result < 0) throw fileError(result, path);
}
