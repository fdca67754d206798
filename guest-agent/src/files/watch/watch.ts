// A watch of a directory: from the kernel's events to the records of its stream, with the rights of a user, for as long
// as its client wants it.
import {
  AgentError,
  type FilePlace,
  type FileWatch,
  FLOW,
  type ResultInput,
  type Stream,
  showName,
  WATCH_END,
} from '@sandboxd/proto';
import { readUserFiles } from '../../exec/users.ts';
import { POLL, type Poller, type Watch as PollWatch } from '../../native/poller.ts';
import { type Actor, findActor, PARK, type ParkedStep, SlicedRun } from '../as-user.ts';
import { toPath } from '../place.ts';
import type { WatchBudget } from './budget.ts';
import { EventQueue, IN, type KernelEvent } from './events.ts';
import { Looks, type Reporter } from './look.ts';
import { WatchOutput } from './output.ts';
import { Place } from './place.ts';
import { isWithin, type Node, WatchEnd, WatchTree } from './tree.ts';

const ROOT = 0;
/** How long the second half of a rename is waited for. */
const LATE_MS = 10;
/** Between two readings of everything, after lost events; longer than the last one took. */
const MIN_PAUSE_MS = 100;
const MAX_PAUSE_MS = 2000;

export type WatchContext = { readonly poller: Poller; readonly watches: WatchBudget };

/** Throws AgentError. */
export function startFileWatch({ poller, watches }: WatchContext, stream: Stream, call: FileWatch): void {
  const place = call.place as FilePlace | undefined;
  if (!place) throw new AgentError('invalid', 'the call names no directory');
  const actor = findActor(place.user, readUserFiles());
  const watch = new FileWatchCall(actor, place, call.recursive, poller, watches);
  watches.open();
  watch.run(stream, () => watches.close());
}

class FileWatchCall {
  readonly #actor: Actor;
  readonly #name: string;
  readonly #place: FilePlace;
  readonly #isRecursive: boolean;
  readonly #poller: Poller;
  readonly #budget: WatchBudget;
  readonly #output = new WatchOutput(() => this.#run?.resume());
  readonly #polls: PollWatch[] = [];
  readonly #reporter: Reporter = {
    created: (path, isDir) => this.#report({ type: 'create', path, isDirectory: isDir }),
    removed: (path) => this.#report({ type: 'remove', path, isDirectory: true }),
  };
  #run: SlicedRun | undefined;
  #timer: NodeJS.Timeout | undefined;
  #pauseMs = 0;
  #watched: Watched | undefined;

  constructor(actor: Actor, place: FilePlace, isRecursive: boolean, poller: Poller, budget: WatchBudget) {
    this.#actor = actor;
    this.#place = place;
    this.#name = toPath(place.path);
    this.#isRecursive = isRecursive;
    this.#poller = poller;
    this.#budget = budget;
  }

  run(stream: Stream, onEnd: () => void): void {
    const run = new SlicedRun(
      this.#actor,
      this.#steps(onEnd),
      (result) => stream.finish(result),
      () => {
        if (!this.#output.isDrained) stream.ready(FLOW.out);
      },
    );
    this.#run = run;
    stream.setSource(FLOW.out, (maxBytes) => this.#output.take(maxBytes));
    stream.handlers = {
      cancel: () => {
        run.stop();
        stream.finish({ error: { code: 'cancelled', message: 'the watch was cancelled' } });
      },
      lost: () => run.stop(),
    };
    run.start();
  }

  *#steps(onEnd: () => void): ParkedStep<ResultInput> {
    let place: Place | undefined;
    try {
      place = new Place(this.#actor, this.#place, this.#name);
      this.#poll(place.inotify);
      try {
        yield* this.#arm(place, 'armed');
      } catch (error) {
        if (!(error instanceof WatchEnd)) throw error;
        throw new AgentError('invalid', `${showName(this.#name)} ${error.message || 'was moved just now'}`);
      }
      return yield* this.#follow(place);
    } finally {
      clearTimeout(this.#timer);
      this.#disarm();
      for (const poll of this.#polls) poll.close();
      place?.close();
      onEnd();
    }
  }

  /** Watches everything, and says so. */
  *#arm(place: Place, type: 'armed' | 'overflow'): ParkedStep<void> {
    const began = performance.now();
    const tree = new WatchTree(this.#budget);
    const looks = new Looks(tree, place.fd, this.#isRecursive);
    this.#watched = { tree, looks };
    this.#poll(tree.inotify);
    yield* looks.start(this.#name, this.#reporter);
    this.#pauseMs = Math.min(Math.max(2 * (performance.now() - began), MIN_PAUSE_MS), MAX_PAUSE_MS);
    // It may have been moved before it was watched.
    place.check(true);
    yield* this.#report({ type, directories: tree.size });
  }

  #disarm(): void {
    if (this.#watched === undefined) return;
    this.#polls.pop()?.close();
    this.#watched.tree.close();
    this.#watched = undefined;
  }

  *#follow(place: Place): ParkedStep<ResultInput> {
    try {
      for (;;) {
        const watched = this.#watched;
        if (watched === undefined) throw new WatchEnd(WATCH_END.REMOVED);
        // An event behind a loss of rights comes behind the change of the directories above.
        const queue = new EventQueue(watched.tree.inotify, () => place.check(false));
        while (yield* this.#pass(place, watched, queue)) yield;
        // Events were lost: what is watched is found again from the beginning.
        this.#disarm();
        yield* this.#pause(this.#pauseMs);
        yield* this.#arm(place, 'overflow');
      }
    } catch (error) {
      if (!(error instanceof WatchEnd) && !(error instanceof AgentError)) throw error;
      this.#disarm();
      while (!this.#output.isDrained) yield PARK;
      return { fileWatch: { reason: toReason(error) } };
    }
  }

  /** Reports the next event, or waits for one; false when some were lost. */
  *#pass(place: Place, watched: Watched, queue: EventQueue): ParkedStep<boolean> {
    yield* this.#room();
    const event = queue.next();
    if (event === 'none' || event === 'late') {
      if (event === 'late') this.#wakeIn(LATE_MS);
      else if (yield* watched.looks.again()) return true;
      if (watched.looks.isLost) return false;
      place.check(false);
      for (const poll of this.#polls) poll.update(POLL.in);
      yield PARK;
      return true;
    }
    if ((event.mask & IN.overflow) !== 0) return false;
    yield* this.#handle(place, watched, event);
    yield* watched.tree.sweep();
    return !watched.looks.isLost;
  }

  *#handle(place: Place, watched: Watched, event: KernelEvent): ParkedStep<void> {
    const { tree } = watched;
    const { mask, name } = event;
    const node = tree.find(event.number);
    const to = event.to && tree.find(event.to.number);
    if (name === '') {
      yield* handleSelf(place, watched, node, mask);
      return;
    }
    if (event.to !== undefined && to !== undefined) {
      if (node === undefined) yield* this.#appear(watched, to, event.to.name, mask);
      else yield* this.#rename(watched, { node, name }, { node: to, name: event.to.name }, mask);
      return;
    }
    if (node === undefined) return;
    const path = tree.pathOf(node, name);
    const isDir = (mask & IN.isDirectory) !== 0;
    if ((mask & (IN.create | IN.movedTo)) !== 0) yield* this.#appear(watched, node, name, mask);
    else if ((mask & (IN.delete | IN.movedFrom)) !== 0) yield* this.#disappear(watched, node, name, isDir);
    else if ((mask & (IN.modify | IN.closeWrite)) !== 0)
      yield* this.#report({ type: 'write', path, isClosed: (mask & IN.closeWrite) !== 0 });
    else if ((mask & IN.attrib) !== 0) {
      yield* this.#report({ type: 'attrib', path, isDirectory: isDir });
      if (isDir && this.#isRecursive) yield* this.#changeRights(watched, node, name);
    }
  }

  /** A name that is new, or has another file. */
  *#appear({ tree, looks }: Watched, node: Node, name: string, mask: number): ParkedStep<void> {
    const isDir = (mask & IN.isDirectory) !== 0;
    const isFollowed = isDir && this.#isRecursive;
    if (!isFollowed) yield* looks.forget(node.children?.get(name));
    // One that the tree has was found, and reported, before its event came.
    const isKnown = node.children?.has(name) === true;
    if (!isKnown) yield* this.#report({ type: 'create', path: tree.pathOf(node, name), isDirectory: isDir });
    if (isFollowed) yield* looks.at(node, name, isKnown ? 'name' : 'empty');
  }

  *#disappear({ tree, looks }: Watched, node: Node, name: string, isDir: boolean): ParkedStep<void> {
    const isReported = node.children?.has(name) === true;
    yield* looks.removed(node, name);
    if (!isReported)
      yield* this.#report({ type: 'remove', path: tree.pathOf(node, name), isDirectory: isDir });
  }

  *#rename(watched: Watched, from: Named, to: Named, mask: number): ParkedStep<void> {
    const { tree, looks } = watched;
    const isDir = (mask & IN.isDirectory) !== 0;
    const moved = from.node.children?.get(from.name);
    // What the tree has is of a later event if it is not a directory, or if it cannot have moved there.
    if (moved !== undefined && (!isDir || isWithin(to.node, moved)))
      yield* looks.removed(from.node, from.name);
    if (!tree.has(to.node)) return;
    const isMoved = moved?.parent === from.node;
    if (isDir && !isMoved && to.node.children?.has(to.name))
      yield* this.#disappear(watched, from.node, from.name, true);
    else {
      yield* this.#report({
        type: 'rename',
        path: tree.pathOf(to.node, to.name),
        from: tree.pathOf(from.node, from.name),
        isDirectory: isDir,
      });
      if (isMoved) tree.move(moved, to.node, to.name);
      else tree.drop(to.node.children?.get(to.name));
    }
    if (isDir && this.#isRecursive) yield* looks.at(to.node, to.name, 'nothing');
    // The two names may have been exchanged.
    yield* looks.at(from.node, from.name, 'nothing');
    if (isMoved && this.#actor.uid !== ROOT) yield* looks.recheck(moved);
  }

  *#changeRights({ looks }: Watched, node: Node, name: string): ParkedStep<void> {
    if (this.#actor.uid === ROOT) return;
    const child = node.children?.get(name);
    if (child === undefined) yield* looks.at(node, name, 'name');
    else yield* looks.recheck(child);
  }

  *#report(record: Parameters<WatchOutput['push']>[0]): ParkedStep<void> {
    yield* this.#room();
    this.#output.push(record);
  }

  *#room(): ParkedStep<void> {
    while (this.#output.isFull) yield PARK;
  }

  *#pause(ms: number): ParkedStep<void> {
    const until = performance.now() + ms;
    while (performance.now() < until) {
      this.#wakeIn(until - performance.now());
      yield PARK;
    }
  }

  #wakeIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#run?.resume(), Math.ceil(ms));
  }

  /** Each event wakes the steps once; they ask again when there is nothing left. */
  #poll(fd: number): void {
    const poll = this.#poller.watch(fd, 0, () => {
      poll.update(0);
      this.#run?.resume();
    });
    this.#polls.push(poll);
  }
}

type Watched = { readonly tree: WatchTree; readonly looks: Looks };
type Named = { readonly node: Node; readonly name: string };

function* handleSelf(
  place: Place,
  { looks }: Watched,
  node: Node | undefined,
  mask: number,
): ParkedStep<void> {
  if (node === undefined || node !== looks.top) {
    if ((mask & IN.ignored) !== 0) yield* looks.forget(node);
  } else if ((mask & (IN.deleteSelf | IN.moveSelf | IN.unmount | IN.ignored)) !== 0)
    throw new WatchEnd(WATCH_END.REMOVED);
  else if ((mask & IN.attrib) !== 0) place.check(true);
}

function toReason(error: WatchEnd | AgentError): number {
  if (error instanceof WatchEnd) return error.reason;
  return error.code === 'busy' ? WATCH_END.TOO_MANY : WATCH_END.UNREADABLE;
}
