// Describes files for the answers of file calls.
import { FILE_ATTRIBUTES, type FileAttributeInput, type FileEntryInput } from '@sandboxd/proto';
import { groupNames, type UserFiles, userNames } from '../exec/users.ts';
import { addon } from '../native/addon.ts';
import type { Step } from './as-user.ts';
import { freshUs, linksOf, modeOf, mtimeUsOf, ownerOf, sizeOf, versionOf } from './status.ts';

const NOTHING = Buffer.alloc(0);
/** A file that changes with every tick is described as it is. */
const MAX_WAITS = 3;
const MAX_WAIT_MS = 12;

/** Reads a status, if need be again, so that any later change of the file has another version. */
export function* settledStatus(status: Float64Array, read: () => number): Step<number> {
  for (let waits = 0; ; waits++) {
    const result = read();
    const isFresh = () => freshUs(status, addon.coarseClock()) > 0;
    if (result < 0 || waits === MAX_WAITS || !isFresh()) return result;
    const until = performance.now() + MAX_WAIT_MS;
    while (isFresh() && performance.now() < until) yield;
  }
}

/** Converts statuses, with the names of users and groups. */
export class Describer {
  readonly #users: ReadonlyMap<number, string>;
  readonly #groups: ReadonlyMap<number, string>;

  constructor({ passwd, group }: UserFiles) {
    this.#users = userNames(passwd);
    this.#groups = groupNames(group);
  }

  /** `path` and `target` are byte strings. */
  describe(
    status: Float64Array,
    path = '',
    target = '',
    attributes: readonly FileAttributeInput[] = [],
  ): FileEntryInput {
    const { uid, gid } = ownerOf(status);
    return {
      path: toBytes(path),
      mode: modeOf(status),
      sizeBytes: sizeOf(status),
      mtimeUs: mtimeUsOf(status),
      uid,
      gid,
      user: this.#users.get(uid) ?? '',
      group: this.#groups.get(gid) ?? '',
      target: toBytes(target),
      links: linksOf(status),
      version: versionOf(status),
      ...(attributes.length > 0 && { attributes: FILE_ATTRIBUTES.encode(attributes) }),
    };
  }
}

function toBytes(text: string): Uint8Array {
  return text === '' ? NOTHING : Buffer.from(text, 'latin1');
}
