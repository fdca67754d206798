// Resolves a command's user, `name|uid[:group|gid]`, in the guest's own passwd and group files. They are read again
// when they have changed: reading them each time is most of the time of a short call.
import { freshUs, isRegular, newStatus } from '../files/status.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';

export type ResolvedUser = {
  /** Absent for a uid without an entry. */
  readonly name?: string | undefined;
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
  readonly home: string;
};

type PasswdEntry = {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
};
type GroupEntry = { readonly name: string; readonly gid: number; readonly members: readonly string[] };

/** The user, or a lower-case sentence with the reason of the failure. */
type UserLookup = { readonly user: ResolvedUser } | { readonly error: string };

/** The kernel reads (uid_t)-1 as "unchanged". */
const MAX_ID = 0xffff_fffe;

/** The files rarely change, and parsing them is most of the time of a short call. */
function rememberLast<T>(parse: (text: string) => T): (text: string) => T {
  let last: { readonly text: string; readonly value: T } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, value: parse(text) };
    return last.value;
  };
}

const parsePasswd = rememberLast((text): readonly PasswdEntry[] =>
  text.split('\n').flatMap((line) => {
    const [name, , uid, gid, , home] = line.split(':');
    const ids = [parseId(uid ?? ''), parseId(gid ?? '')] as const;
    if (!name || ids[0] === undefined || ids[1] === undefined) return [];
    return [{ name, uid: ids[0], gid: ids[1], home: home || '/' }];
  }),
);

const parseGroup = rememberLast((text): readonly GroupEntry[] =>
  text.split('\n').flatMap((line) => {
    const [name, , gid, members] = line.split(':');
    const id = parseId(gid ?? '');
    if (!name || id === undefined) return [];
    return [{ name, gid: id, members: (members ?? '').split(',').filter((member) => member !== '') }];
  }),
);

/** As the C library: the first entry of an id has its name. */
export const userNames = rememberLast(
  (passwd): ReadonlyMap<number, string> =>
    new Map(
      parsePasswd(passwd)
        .map(({ uid, name }) => [uid, name] as const)
        .reverse(),
    ),
);
export const groupNames = rememberLast(
  (group): ReadonlyMap<number, string> =>
    new Map(
      parseGroup(group)
        .map(({ gid, name }) => [gid, name] as const)
        .reverse(),
    ),
);

let last: (UserFiles & { readonly spec: string; readonly found: UserLookup }) | undefined;

/** Resolves `spec`; "" is root. A number needs no entry in the files; a name does. */
export function resolveUser(spec: string, { passwd, group }: UserFiles): UserLookup {
  // Most calls are for the same user as the one before.
  if (last?.spec !== spec || last.passwd !== passwd || last.group !== group)
    last = { spec, passwd, group, found: findUser(spec, { passwd, group }) };
  return last.found;
}

function findUser(spec: string, files: UserFiles): UserLookup {
  const [userPart = '', ...rest] = spec.split(':');
  const groupPart = rest.join(':');
  if (spec !== '' && (userPart === '' || (spec.includes(':') && groupPart === ''))) {
    return { error: `user ${JSON.stringify(spec)} is not name|uid[:group|gid]` };
  }
  const userName = userPart === '' ? 'root' : userPart;
  const users = parsePasswd(files.passwd);
  const number = userPart === '' ? 0 : parseId(userPart);
  const entry =
    users.find((user) => user.name === userName) ??
    (number === undefined ? undefined : users.find((user) => user.uid === number));
  const uid = entry?.uid ?? number;
  if (uid === undefined)
    return { error: `there is no user ${JSON.stringify(userPart)} in the guest's /etc/passwd` };

  const groups = parseGroup(files.group);
  const home = entry?.home ?? (uid === 0 ? '/root' : '/');
  const name = entry?.name ?? (uid === 0 ? 'root' : undefined);
  const known = { uid, home, ...(name !== undefined && { name }) };
  if (groupPart !== '') {
    const gid = groups.find((group) => group.name === groupPart)?.gid ?? parseId(groupPart);
    if (gid === undefined)
      return { error: `there is no group ${JSON.stringify(groupPart)} in the guest's /etc/group` };
    return { user: { ...known, gid, groups: [gid] } };
  }
  const gid = entry?.gid ?? 0;
  const others = groups.filter((group) => entry !== undefined && group.members.includes(entry.name));
  return { user: { ...known, gid, groups: [...new Set([gid, ...others.map((group) => group.gid)])] } };
}

function parseId(text: string): number | undefined {
  if (!/^[0-9]{1,10}$/.test(text)) return undefined;
  const id = Number(text);
  return id <= MAX_ID ? id : undefined;
}

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
