// Walks a directory tree in archive order, by open descriptors. Links are never followed, other file systems are not
// entered, and files that disappear meanwhile are skipped.
import { constants } from 'node:os';
import { AgentError, showName } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';
import { fileError } from './errors.ts';
import {
  deviceOf,
  isDirectory,
  isSymlink,
  linkKey,
  modeOf,
  mtimeOf,
  ownerOf,
  SPECIAL,
  sizeOf,
} from './status.ts';
import type { TarMember } from './tar/writer.ts';

/** Each level holds an open descriptor. */
const MAX_DEPTH = 2048;
const { ENOENT, ELOOP, ENOTDIR, ENXIO } = constants.errno;

type Level = { readonly fd: number; readonly path: string; names: string[]; next: number };

/** Source of an archive's members. */
export type Members = {
  /** Undefined at the end. Throws AgentError. */
  next(): Found | undefined;
  /** Number of skipped files that an archive cannot hold. */
  readonly leftOut: number;
  close(): void;
};

/** A member, and the descriptor of its content if it has content. The caller closes the descriptor. */
export type Found = { readonly member: TarMember; readonly fd: number | undefined };

/** Takes ownership of the descriptor: a regular file that is the only member. */
export function onlyFile(fd: number, status: Float64Array, name: string): Members {
  let found: Found | undefined = { member: toMember(status, '0', name), fd };
  const take = () => {
    const taken = found;
    found = undefined;
    return taken;
  };
  return {
    next: take,
    leftOut: 0,
    close: () => {
      if (take() !== undefined) addon.close(fd);
    },
  };
}

export class Walk implements Members {
  readonly #levels: Level[] = [];
  readonly #status: Float64Array;
  readonly #device: number;
  readonly #skip: ReadonlySet<string>;
  /** First name of each inode with several names. */
  readonly #links = new Map<string, string>();
  #isAtTop = true;
  leftOut = 0;

  /** Takes ownership of the descriptor. `status` is the top directory's. `skip` lists paths to leave out. */
  constructor(fd: number, status: Float64Array, skip: ReadonlySet<string> = new Set()) {
    this.#levels.push({ fd, path: '', names: [], next: 0 });
    this.#status = status;
    this.#device = deviceOf(status);
    this.#skip = skip;
  }

  next(): Found | undefined {
    if (this.#isAtTop) {
      this.#isAtTop = false;
      return { member: this.#member('5', './'), fd: undefined };
    }
    for (let level = this.#levels.at(-1); level !== undefined; level = this.#levels.at(-1)) {
      const name = this.#nextName(level);
      if (name === undefined) {
        this.#levels.pop();
        addon.close(level.fd);
        continue;
      }
      if (this.#skip.has(level.path + name)) continue;
      const found = this.#visit(level, name);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  close(): void {
    for (const { fd } of this.#levels.splice(0)) addon.close(fd);
  }

  #nextName(level: Level): string | undefined {
    if (level.next >= level.names.length) {
      const batch = addon.nextEntries(level.fd);
      if (typeof batch !== 'string') throw fileError(batch, level.path);
      if (batch === '') return undefined;
      level.names = batch.slice(0, -1).split('/');
      level.next = 0;
    }
    return level.names[level.next++];
  }

  #visit(level: Level, name: string): Found | undefined {
    const status = this.#status;
    const path = level.path + name;
    const fd = addon.openEntry(level.fd, name, status);
    if (fd === SPECIAL) return this.#special(level, name, path);
    // The file was removed or replaced by another kind.
    if (fd === -ENOENT || fd === -ELOOP || fd === -ENOTDIR || fd === -ENXIO) return undefined;
    if (fd < 0) throw fileError(fd, path);
    if (isDirectory(status)) {
      if (this.#levels.length >= MAX_DEPTH || deviceOf(status) !== this.#device) addon.close(fd);
      if (this.#levels.length >= MAX_DEPTH)
        throw new AgentError('invalid', `${showName(path)} is nested deeper than ${MAX_DEPTH} directories`);
      if (deviceOf(status) === this.#device) this.#levels.push({ fd, path: `${path}/`, names: [], next: 0 });
      return { member: this.#member('5', `${path}/`), fd: undefined };
    }
    const first = this.#firstName(path);
    if (first === undefined && sizeOf(status) > 0) return { member: this.#member('0', path), fd };
    addon.close(fd);
    return {
      member: first === undefined ? this.#member('0', path) : this.#member('1', path, first),
      fd: undefined,
    };
  }

  #special(level: Level, name: string, path: string): Found | undefined {
    if (!isSymlink(this.#status)) {
      this.leftOut += 1;
      return undefined;
    }
    const target = addon.readLink(level.fd, name);
    if (typeof target !== 'string') return undefined;
    const first = this.#firstName(path);
    return {
      member: first === undefined ? this.#member('2', path, target) : this.#member('1', path, first),
      fd: undefined,
    };
  }

  /** The earlier name of the same inode, if any. */
  #firstName(path: string): string | undefined {
    const key = linkKey(this.#status);
    if (key === undefined) return undefined;
    const first = this.#links.get(key);
    if (first === undefined) this.#links.set(key, path);
    return first;
  }

  #member(flag: TarMember['flag'], name: string, target = ''): TarMember {
    return toMember(this.#status, flag, name, target);
  }
}

function toMember(status: Float64Array, flag: TarMember['flag'], name: string, target = ''): TarMember {
  return {
    flag,
    name,
    target,
    mode: modeOf(status),
    ...ownerOf(status),
    sizeBytes: flag === '0' ? sizeOf(status) : 0,
    mtimeSeconds: mtimeOf(status),
  };
}
