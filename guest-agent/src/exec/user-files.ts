// The guest's own files of users and groups. They are read again when they have changed: reading them each time is
// most of the time of a short call.
import { freshUs, isRegular, newStatus } from '../files/status.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';

/** Texts of the files; "" for one that cannot be read. */
export type UserFiles = { readonly passwd: string; readonly group: string };

export class CachedText {
  readonly #path: string;
  #text = '';
  /** The file's status before the text was read; undefined if the text may have changed since, unseen. */
  #of: Float64Array | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  read(): string {
    const status = newStatus();
    const isFound = addon.statusAt(NO_DIRECTORY, this.#path, status) === 0;
    if (isFound && this.#of !== undefined && isSame(this.#of, status)) return this.#text;
    // Of a link there is no status; a file that changes again in this tick keeps the status.
    this.#of =
      isFound && isRegular(status) && freshUs(status, addon.coarseClock()) === 0 ? status : undefined;
    this.#text = addon.readText(NO_DIRECTORY, this.#path);
    return this.#text;
  }
}

function isSame(one: Float64Array, other: Float64Array): boolean {
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false;
  return true;
}

const passwd = new CachedText('/etc/passwd');
const group = new CachedText('/etc/group');

export function readUserFiles(): UserFiles {
  return { passwd: passwd.read(), group: group.read() };
}
