// What the Node of this host names: its sandboxes without a place.
import { setTimeout as sleep } from 'node:timers/promises';
import { toMove } from '../kubernetes/pods.ts';
import type { UnplacedList } from '../kubernetes/unplaced.ts';
import { writeUnplaced } from '../kubernetes/unplaced.ts';
import type { LocalSandboxes, PlaceRecords } from './local-sandboxes.ts';

/** Of many changes at once, one is posted. */
const BUNDLE_MS = 100;

type UnplacedPostDeps = {
  readonly read: () => UnplacedList;
  /** As the Node has it. */
  readonly posted: () => string;
  readonly post: (text: string) => Promise<void>;
  readonly signal: AbortSignal;
};

/** One at a time, so that an older list never replaces a newer one. */
export class UnplacedPost {
  readonly #deps: UnplacedPostDeps;
  #last: Promise<void> = Promise.resolve();
  #isNoted = false;

  constructor(deps: UnplacedPostDeps) {
    this.#deps = deps;
  }

  async post(): Promise<void> {
    const { read, posted, post } = this.#deps;
    const mine = this.#last.then(async () => {
      const text = writeUnplaced(read());
      if (text !== posted()) await post(text);
    });
    this.#last = mine.catch(() => undefined);
    await mine;
  }

  /** Before the next renewal, which repeats what fails. */
  note(): void {
    if (this.#isNoted) return;
    this.#isNoted = true;
    void this.#postSoon().catch(() => undefined);
  }

  async #postSoon(): Promise<void> {
    await sleep(BUNDLE_MS, undefined, { signal: this.#deps.signal, ref: false });
    this.#isNoted = false;
    await this.post();
  }

  async idle(): Promise<void> {
    await this.#last;
  }
}

/** `nodeUid`: places of an earlier Node may be gone, or go. */
export function readUnplacedList(
  records: PlaceRecords,
  sandboxes: LocalSandboxes,
  nodeUid: string | undefined,
): UnplacedList {
  const all = records.all();
  const named = all.flatMap(({ id, record: { namespace, isUnlisted } }) => {
    const size = isUnlisted === true ? sandboxes.sizeOf(id) : undefined;
    if (size === undefined) return [];
    const departure = sandboxes.departureOf(id);
    return [{ id, namespace, ...size, ...(departure !== undefined && { leaves: toMove(departure) }) }];
  });
  const hasMore = all.some(
    ({ id, record }) =>
      record.isUnlisted !== true && record.nodeUid !== nodeUid && sandboxes.stateOf(id) !== undefined,
  );
  return { named, hasMore };
}
