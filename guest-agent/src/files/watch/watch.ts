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
import { POLL, type Poller, type Watch as PollWatch } from '../../native/poller.ts';
import { type Actor, findActor, PARK, type ParkedStep, readNames, SlicedRun } from '../as-user.ts';
import { toPath } from '../place.ts';
import type { WatchBudget } from './budget.ts';
import { EventQueue, IN, type KernelEvent } from './events.ts';
import { WatchOutput } from './output.ts';
import { Place } from './place.ts';
import { type Node, type Visitor, WatchEnd, WatchTree } from './tree.ts';

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
  const actor = findActor(place.user, readNames());
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
  readonly #visitor: Visitor = {
    entry: (path, isDir) => this.#report({ type: 'create', path, isDirectory: isDir }),
    gone: (path) => this.#report({ type: 'remove', path, isDirectory: true }),
  };
  #run: SlicedRun | undefined;
  #timer: NodeJS.Timeout | undefined;
  #pauseMs = 0;
  #tree: WatchTree | undefined;

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
    const tree = new WatchTree(place.fd, this.#isRecursive, this.#budget);
    this.#tree = tree;
    this.#poll(tree.inotify);
    yield* tree.start(this.#name);
    this.#pauseMs = Math.min(Math.max(2 * (performance.now() - began), MIN_PAUSE_MS), MAX_PAUSE_MS);
    // It may have been moved before it was watched.
    place.check(true);
    yield* this.#report({ type, directories: tree.size });
  }

  #disarm(): void {
    if (this.#tree === undefined) return;
    this.#polls.pop()?.close();
    this.#tree.close();
    this.#tree = undefined;
  }

  *#follow(place: Place): ParkedStep<ResultInput> {
    try {
      for (;;) {
        const tree = this.#tree;
        if (tree === undefined) throw new WatchEnd(WATCH_END.REMOVED);
        // An event behind a loss of rights comes behind the change of the directories above.
        const queue = new EventQueue(tree.inotify, () => place.check(false));
        while (yield* this.#pass(place, tree, queue)) yield;
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
  *#pass(place: Place, tree: WatchTree, queue: EventQueue): ParkedStep<boolean> {
    yield* this.#room();
    const event = queue.next();
    if (event === 'none' || event === 'late') {
      if (event === 'late') this.#wakeIn(LATE_MS);
      place.check(false);
      for (const poll of this.#polls) poll.update(POLL.in);
      yield PARK;
      return true;
    }
    if ((event.mask & IN.overflow) !== 0) return false;
    yield* this.#handle(place, tree, queue, event);
    yield* tree.sweep();
    return true;
  }

  *#handle(place: Place, tree: WatchTree, queue: EventQueue, event: KernelEvent): ParkedStep<void> {
    const { mask, name } = event;
    const node = tree.find(event.number);
    const to = event.to && tree.find(event.to.number);
    if (name === '') {
      handleSelf(place, tree, node, mask);
      return;
    }
    if (event.to !== undefined && to !== undefined) {
      if (node === undefined) yield* this.#appear(tree, to, event.to.name, mask);
      else if (yield* this.#isExchange(tree, queue, { ...event, to: event.to }, node)) {
        yield* this.#replace(tree, node, name);
        yield* this.#replace(tree, to, event.to.name);
      } else yield* this.#rename(tree, { node, name }, { node: to, name: event.to.name }, mask);
      return;
    }
    if (node === undefined) return;
    const path = tree.pathOf(node, name);
    const isDir = (mask & IN.isDirectory) !== 0;
    if ((mask & (IN.create | IN.movedTo)) !== 0) yield* this.#appear(tree, node, name, mask);
    else if ((mask & (IN.delete | IN.movedFrom)) !== 0) {
      tree.drop(node.children?.get(name));
      yield* this.#report({ type: 'remove', path, isDirectory: isDir });
    } else if ((mask & (IN.modify | IN.closeWrite)) !== 0)
      yield* this.#report({ type: 'write', path, isClosed: (mask & IN.closeWrite) !== 0 });
    else if ((mask & IN.attrib) !== 0) {
      yield* this.#report({ type: 'attrib', path, isDirectory: isDir });
      if (isDir && this.#isRecursive) yield* this.#changeRights(tree, node, name);
    }
  }

  /** A name that is new, or has another file. */
  *#appear(tree: WatchTree, node: Node, name: string, mask: number): ParkedStep<void> {
    const isDir = (mask & IN.isDirectory) !== 0;
    yield* this.#report({ type: 'create', path: tree.pathOf(node, name), isDirectory: isDir });
    if (isDir && this.#isRecursive) yield* tree.enter(node, name, this.#visitor);
  }

  /** Two files have changed names: the kernel tells that as two renames, and a client would lose one of the files. */
  *#isExchange(
    tree: WatchTree,
    queue: EventQueue,
    event: Required<KernelEvent>,
    node: Node,
  ): ParkedStep<boolean> {
    if (tree.isDirectoryAt(node, event.name) === undefined) return false;
    const until = performance.now() + 2 * LATE_MS;
    for (;;) {
      const isBack = queue.takeBack(event, event.to);
      if (isBack !== undefined) return isBack;
      if (performance.now() >= until) return false;
      this.#wakeIn(LATE_MS / 5);
      yield PARK;
    }
  }

  /** A name that has another file now, or none. */
  *#replace(tree: WatchTree, node: Node, name: string): ParkedStep<void> {
    yield* this.#report({ type: 'remove', path: tree.pathOf(node, name) });
    const isDir = tree.isDirectoryAt(node, name);
    if (isDir === undefined) tree.drop(node.children?.get(name));
    else yield* this.#appear(tree, node, name, isDir ? IN.isDirectory : 0);
  }

  *#rename(tree: WatchTree, from: Named, to: Named, mask: number): ParkedStep<void> {
    const isDir = (mask & IN.isDirectory) !== 0;
    const moved = from.node.children?.get(from.name);
    yield* this.#report({
      type: 'rename',
      path: tree.pathOf(to.node, to.name),
      from: tree.pathOf(from.node, from.name),
      isDirectory: isDir,
    });
    if (!isDir || !this.#isRecursive) return;
    if (moved === undefined) {
      yield* tree.enter(to.node, to.name, this.#visitor);
      return;
    }
    tree.move(moved, to.node, to.name);
    if (this.#actor.uid !== ROOT) yield* tree.recheck(moved);
  }

  *#changeRights(tree: WatchTree, node: Node, name: string): ParkedStep<void> {
    if (this.#actor.uid === ROOT) return;
    const child = node.children?.get(name);
    if (child === undefined) yield* tree.enter(node, name, this.#visitor);
    else yield* tree.recheck(child);
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

type Named = { readonly node: Node; readonly name: string };

function handleSelf(place: Place, tree: WatchTree, node: Node | undefined, mask: number): void {
  if (node === undefined || node !== tree.top) {
    if ((mask & IN.ignored) !== 0) tree.drop(node);
  } else if ((mask & (IN.deleteSelf | IN.moveSelf | IN.unmount | IN.ignored)) !== 0)
    throw new WatchEnd(WATCH_END.REMOVED);
  else if ((mask & IN.attrib) !== 0) place.check(true);
}

function toReason(error: WatchEnd | AgentError): number {
  if (error instanceof WatchEnd) return error.reason;
  return error.code === 'busy' ? WATCH_END.TOO_MANY : WATCH_END.UNREADABLE;
}
