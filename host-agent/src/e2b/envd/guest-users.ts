// Users of guests: who a request acts as, and where relative paths begin.
import { posix } from 'node:path';
import { ForbiddenError } from '@sandboxd/client';
import type { Requests } from '../rest.ts';
import { ConnectError } from './connect-protocol.ts';

export type GuestUser = { readonly name: string; readonly home: string };

/** E2B's templates have it; in others the default is root. */
const DEFAULT_USER = 'user';
const ROOT: GuestUser = { name: 'root', home: '/root' };
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$/;
const MAX_PASSWD_BYTES = 256 * 1024;
/** A longer one is read for each request, so that what is remembered stays small. */
const MAX_KNOWN_BYTES = 8 * 1024;
/** Sandboxes that are remembered, and for how long: programs in them add users. */
const MAX_KNOWN = 1000;
const KNOWN_MS = 30_000;

type Known = { readonly homes: ReadonlyMap<string, string>; readonly atMs: number };

export class GuestUsers {
  readonly #known = new Map<string, Known>();

  /** `name` is that of a request; without one it is the default user. ConnectError unauthenticated. */
  async find(requests: Requests, id: string, name: string | undefined): Promise<GuestUser> {
    if (name !== undefined && !NAME.test(name)) throw unknownUser(name);
    const found = this.#known.get(id);
    const isFresh = found !== undefined && Date.now() - found.atMs < KNOWN_MS;
    const known = isFresh ? found : await this.#read(requests, id);
    const home = known.homes.get(name ?? DEFAULT_USER);
    if (home !== undefined) return { name: name ?? DEFAULT_USER, home };
    if (name === undefined || name === ROOT.name) return ROOT;
    const homes = isFresh ? (await this.#read(requests, id)).homes : known.homes;
    const other = homes.get(name);
    if (other === undefined) throw unknownUser(name);
    return { name, home: other };
  }

  async #read(requests: Requests, id: string): Promise<Known> {
    const read = await readHomes(requests, id);
    const known = { homes: read?.homes ?? new Map<string, string>(), atMs: Date.now() };
    // Other keys may read what this one may not.
    if (read === undefined) return known;
    this.#known.delete(id);
    if (read.bytes <= MAX_KNOWN_BYTES) this.#known.set(id, known);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
    return known;
  }
}

function unknownUser(name: string): ConnectError {
  return new ConnectError('unauthenticated', `invalid username: '${name.slice(0, 64)}'`);
}

type Homes = { readonly homes: ReadonlyMap<string, string>; readonly bytes: number };

/** Undefined for a key without the right to read files, which acts as root. */
async function readHomes(requests: Requests, id: string): Promise<Homes | undefined> {
  try {
    const { body } = await requests.stream('readContent', {
      params: { id },
      query: { path: '/etc/passwd' },
    });
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of body) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > MAX_PASSWD_BYTES) break;
    }
    const lines = Buffer.concat(chunks).toString('latin1').split('\n');
    const fields = lines.map((line) => line.split(':'));
    const homes = new Map(
      fields.flatMap(([name = '', , , , , home = '']) =>
        home.startsWith('/') ? [[name, home] as const] : [],
      ),
    );
    return { homes, bytes };
  } catch (error) {
    if (error instanceof ForbiddenError) return undefined;
    // An image need not have the file.
    if ((error as { readonly status?: number }).status === 404) return { homes: new Map(), bytes: 0 };
    throw error;
  }
}

/** The absolute path that a request means. ConnectError invalid_argument. */
export function resolvePath(path: string, { home }: GuestUser): string {
  if (path.includes('\0')) throw new ConnectError('invalid_argument', 'a path has no NUL byte');
  if (path === '~' || path.startsWith('~/')) return posix.join(home, path.slice(1));
  if (path.startsWith('~'))
    throw new ConnectError('invalid_argument', `cannot expand user-specific home dir: ${path}`);
  return posix.resolve(home, path);
}
