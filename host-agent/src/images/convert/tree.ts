// The merged filesystem of all layers. Archive names are resolved in this tree only, never in the host's filesystem
// (tar slip).
import { showName } from '@sandboxd/proto';
import { MAX_NAME_BYTES } from '../erofs/format.ts';
import { type DirectoryInode, type Entry, type Inode, newDirectory } from '../erofs/inode.ts';
import { ImageError, MAX_DEPTH, MAX_LINKS, MAX_PATH_BYTES, WHITEOUT_WORK } from './limits.ts';

/** A directory and a name in it, whether or not the entry exists. */
export type Place = { readonly parent: DirectoryInode; readonly name: string };

/** Entries that whiteouts may visit even in a small image. */
const FREE_WHITEOUT_WORK = 1_000_000;

export class Tree {
  readonly root = newDirectory();
  /** Number of entries ever added. */
  #added = 0;
  #whiteoutWork = 0;

  /**
   * Splits a member's name into parts. `..` removes the part before it, without a lookup, as in Docker and podman.
   * ImageError when the name leaves the root directory or exceeds a limit.
   */
  split(name: string): string[] {
    if (name.length > MAX_PATH_BYTES)
      throw new ImageError(
        `the name of ${showName(name)} has ${name.length} bytes; a path has at most ${MAX_PATH_BYTES}`,
      );
    if (name.includes('\0')) throw new ImageError(`the name ${showName(name)} has a zero byte`);
    const parts: string[] = [];
    for (const part of name.split('/')) {
      if (part === '' || part === '.') continue;
      if (part !== '..') parts.push(part);
      else if (parts.pop() === undefined)
        throw new ImageError(`the name ${showName(name)} leads out of the root directory`);
    }
    const long = parts.find((part) => part.length > MAX_NAME_BYTES);
    if (long !== undefined)
      throw new ImageError(
        `a name in ${showName(name)} has ${long.length} bytes; at most ${MAX_NAME_BYTES} are possible`,
      );
    if (parts.length > MAX_DEPTH)
      throw new ImageError(
        `${showName(name)} is ${parts.length} directories deep; at most ${MAX_DEPTH} are possible`,
      );
    return parts;
  }

  /**
   * Resolves a name: follows symbolic links in its directories as a process with this root would, and creates missing
   * directories. The last part is not followed.
   */
  place(parts: readonly string[], layer: number): Place {
    const last = parts.at(-1);
    if (last === undefined)
      throw new ImageError('a member of the archive has the name of the root directory');
    return { parent: this.#walk(parts, layer), name: last };
  }

  get({ parent, name }: Place): Entry | undefined {
    return parent.entries.get(name);
  }

  /** Replaces an existing entry of that name and everything below it. */
  put({ parent, name }: Place, inode: Inode, layer: number): void {
    this.#added += 1;
    parent.entries.set(name, { inode, layer });
  }

  /** Hides the entry of lower layers. Entries of the same layer stay. */
  whiteout({ parent, name }: Place, layer: number): void {
    const entry = parent.entries.get(name);
    if (entry !== undefined && !this.#strip(entry, layer)) parent.entries.delete(name);
  }

  /** Hides all entries of lower layers in a directory, or the entry that is in the directory's place. */
  makeOpaque(parts: readonly string[], layer: number): void {
    const place = parts.length > 0 ? this.place(parts, layer) : undefined;
    const type = place && this.get(place)?.inode.type;
    if (place && type !== 'directory' && type !== 'symlink') this.whiteout(place, layer);
    this.#stripEntries(this.#walk([...parts, '.'], layer), layer);
  }

  #walk(parts: readonly string[], layer: number): DirectoryInode {
    const trail: DirectoryInode[] = [this.root];
    const rest = parts.slice(0, -1).reverse();
    let links = 0;
    for (let part = rest.pop(); part !== undefined; part = rest.pop()) {
      const here = trail.at(-1) ?? this.root;
      if (part === '..') {
        if (trail.length > 1) trail.pop();
        continue;
      }
      const inode = here.entries.get(part)?.inode ?? this.#makeDirectory(here, part, layer);
      if (inode.type === 'directory') {
        if (trail.length > MAX_DEPTH) throw new ImageError(`${showName(parts.join('/'))} is too deep`);
        trail.push(inode);
      } else if (inode.type === 'symlink') {
        links += 1;
        if (links > MAX_LINKS)
          throw new ImageError(
            `${showName(parts.join('/'))} lies behind more than ${MAX_LINKS} symbolic links`,
          );
        if (inode.target.startsWith('/')) trail.length = 1;
        const through = inode.target.split('/').filter((each) => each !== '' && each !== '.');
        const long = through.find((each) => each.length > MAX_NAME_BYTES);
        if (long !== undefined)
          throw new ImageError(`${showName(parts.join('/'))} lies behind a link to a name that is too long`);
        rest.push(...through.reverse());
      } else
        throw new ImageError(
          `${showName(parts.join('/'))} lies beneath ${showName(part)}, which is not a directory`,
        );
    }
    return trail.at(-1) ?? this.root;
  }

  #makeDirectory(parent: DirectoryInode, name: string, layer: number): DirectoryInode {
    const directory = newDirectory();
    this.put({ parent, name }, directory, layer);
    return directory;
  }

  /** Removes everything that comes from lower layers; returns whether anything is left. */
  #strip(entry: Entry, layer: number): boolean {
    this.#countWork();
    if (entry.inode.type !== 'directory') return entry.layer === layer;
    this.#stripEntries(entry.inode, layer);
    return entry.layer === layer || entry.inode.entries.size > 0;
  }

  #stripEntries(directory: DirectoryInode, layer: number): void {
    for (const [name, entry] of directory.entries)
      if (!this.#strip(entry, layer)) directory.entries.delete(name);
  }

  /** A small image whose whiteouts repeatedly remove many entries would otherwise cost unbounded CPU time. */
  #countWork(): void {
    this.#whiteoutWork += 1;
    if (this.#whiteoutWork > FREE_WHITEOUT_WORK + WHITEOUT_WORK * this.#added)
      throw new ImageError('the whiteouts of the image remove the same entries again and again');
  }
}
