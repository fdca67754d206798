// The watched directory, and those above it: a change of them may take the watched one out of the call's root, or its
// user's right to reach it.
import { constants } from 'node:fs';
import { constants as systemConstants } from 'node:os';
import { AgentError, type FilePlace, WATCH_END } from '@sandboxd/proto';
import { addon, NO_DIRECTORY, NOT_NOW } from '../../native/addon.ts';
import type { Actor } from '../as-user.ts';
import { pathOf } from '../destination.ts';
import { fileError } from '../errors.ts';
import { Root } from '../place.ts';
import { deviceOf, isDirectory, newStatus } from '../status.ts';
import { IN } from './events.ts';
import { WatchEnd } from './tree.ts';

const O_PATH = 0o10000000;
const MASK = IN.attrib | IN.moveSelf | IN.deleteSelf | IN.onlyDirectory;
const RESOLVE = 0x02 /* NO_MAGICLINKS */ | 0x04; /* NO_SYMLINKS */
const ROOT = 0;
const { ENOTDIR } = systemConstants.errno;
const scratch = Buffer.allocUnsafeSlow(4096);

/** All methods but `close` are called as the user. */
export class Place {
  /** Its events are only counted. */
  readonly inotify: number;
  readonly fd: number;
  readonly #actor: Actor;
  readonly #root: Root;
  /** In the guest, and below the call's root; without links. */
  readonly #path: string;
  readonly #pathInRoot: string;

  /** Throws AgentError. */
  constructor(actor: Actor, place: FilePlace, name: string) {
    using stack = new DisposableStack();
    this.#actor = actor;
    this.#root = stack.use(new Root(place));
    this.fd = stack.adopt(this.#root.at(name), (fd) => addon.close(fd));
    const status = newStatus();
    addon.statusOf(this.fd, status);
    if (!isDirectory(status)) throw fileError(-ENOTDIR, name);
    this.#path = pathOf(this.fd);
    const above = pathOf(this.#root.fd) === '/' ? '' : pathOf(this.#root.fd);
    if (this.#path !== above && !this.#path.startsWith(`${above}/`))
      throw new AgentError('conflict', 'the directory was moved just now; try again');
    this.#pathInRoot = this.#path.slice(above.length) || '/';
    this.inotify = stack.adopt(addon.openInotify(), (fd) => fd >= 0 && addon.close(fd));
    if (this.inotify < 0)
      throw new AgentError('busy', 'the programs of this guest watch too much: no inotify instance is left');
    asRoot(actor, () => this.#guard());
    stack.move();
  }

  /** As root: the user may not be able to read the directories above. */
  #guard(): void {
    // The descriptor keeps the watched directory from being gone for the kernel; its parent tells its removal.
    let more: number = IN.delete;
    for (let at = this.#path; at.length > 1; ) {
      at = at.slice(0, at.lastIndexOf('/')) || '/';
      const fd = addon.openBeneath(NO_DIRECTORY, at, O_PATH | constants.O_DIRECTORY, RESOLVE);
      if (fd < 0) continue;
      addon.watchDirectory(this.inotify, fd, MASK | more);
      addon.close(fd);
      more = 0;
    }
  }

  /** Throws WatchEnd if the directory is not where it was, or the user may not read it any more. */
  check(isForced: boolean): void {
    if (!this.#hasChanged() && !isForced) return;
    const [now, before] = [newStatus(), newStatus()];
    addon.statusOf(this.fd, before);
    const found = asRoot(this.#actor, () => {
      const fd = addon.openBeneath(NO_DIRECTORY, this.#path, O_PATH | constants.O_DIRECTORY, RESOLVE);
      if (fd < 0) return fd;
      addon.statusOf(fd, now);
      addon.close(fd);
      return 0;
    });
    const isSame = deviceOf(now) === deviceOf(before) && now[6] === before[6] && now[7] === before[7];
    if (found < 0 || !isSame) throw new WatchEnd(WATCH_END.REMOVED);
    const fd = this.#root.find(this.#pathInRoot);
    const opened = fd < 0 ? fd : addon.reopen(fd, constants.O_RDONLY | constants.O_DIRECTORY);
    if (fd >= 0) addon.close(fd);
    if (opened < 0) throw new WatchEnd(WATCH_END.UNREADABLE);
    addon.close(opened);
  }

  #hasChanged(): boolean {
    let hasChanged = false;
    for (;;) {
      const bytes = addon.read(this.inotify, scratch, 0, scratch.length);
      if (bytes === NOT_NOW || bytes <= 0) return hasChanged;
      hasChanged = true;
    }
  }

  close(): void {
    addon.close(this.inotify);
    addon.close(this.fd);
    this.#root[Symbol.dispose]();
  }
}

/** For a moment between two steps of the user. `work` throws nothing. */
function asRoot<T>({ uid, gid, groups }: Actor, work: () => T): T {
  if (uid === ROOT && gid === ROOT) return work();
  if (addon.actAs(0, 0, []) < 0) throw new Error('cannot act as root again');
  const result = work();
  if (addon.actAs(uid, gid, groups) < 0) throw new Error('cannot act as the user again');
  return result;
}
