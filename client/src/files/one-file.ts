// Packs members of tar archives, because uploads are always archives.
import { untilReady } from '@sandboxd/api/archive';
import { type Header, pack } from 'tar-stream';
import type { Bytes } from '../connection/transport.ts';
import { SandboxdError } from '../errors.ts';

export type NewMember = Pick<Header, 'name' | 'type' | 'mode' | 'size'> &
  Partial<Pick<Header, 'uid' | 'gid' | 'mtime' | 'linkname'>>;

export const END_MARK = new Uint8Array(1024);
const NOTHING = new Uint8Array();
/** The largest values that tar-stream writes into header fields. */
const MAX_ID = 0o777_777;
const MAX_SECONDS = 2 ** 31 - 1;
/** tar-stream takes a mode of 0 for none; it writes the lower bits only. */
const REGULAR_FILE = 0o100000;

/** Splits an absolute path. */
export function splitPath(path: string): { readonly directory: string; readonly name: string } {
  const at = path.lastIndexOf('/');
  const name = path.slice(at + 1);
  if (at < 0 || name === '') throw new TypeError(`${JSON.stringify(path)} is not an absolute path of a file`);
  return { directory: path.slice(0, at) || '/', name };
}

/** An archive of one file. */
export async function* packFile(
  name: string,
  data: string | Uint8Array | Bytes,
  { mode, sizeBytes }: { readonly mode: number; readonly sizeBytes: number | undefined },
): AsyncGenerator<Uint8Array, void> {
  const content = typeof data === 'string' ? new TextEncoder().encode(data) : data;
  const size = content instanceof Uint8Array ? content.length : sizeBytes;
  if (size === undefined)
    throw new TypeError('a stream needs sizeBytes: an archive says first how long a file is');
  yield* packMember({ name, size, mode, type: 'file' }, content);
  yield END_MARK;
}

/** One member. SandboxdError when the body has more or fewer bytes than the header states. */
export async function* packMember(
  header: NewMember,
  body: Uint8Array | Bytes = NOTHING,
): AsyncGenerator<Uint8Array, void> {
  // One for each member: tar-stream has no backpressure between members without content.
  const archive = pack();
  fill(archive.entry(fitHeader(header)), body, header).then(
    () => archive.finalize(),
    (error: Error) => archive.destroy(error),
  );
  let last: Uint8Array | undefined;
  for await (const bytes of archive as AsyncIterable<Uint8Array>) {
    if (last !== undefined) yield last;
    last = bytes;
  }
  // The last chunk is the end mark.
}

type Member = ReturnType<ReturnType<typeof pack>['entry']>;

async function fill(member: Member, body: Uint8Array | Bytes, { name, size }: NewMember): Promise<void> {
  // The archive has the same error.
  member.on('error', () => undefined);
  let written = 0;
  for await (const bytes of body instanceof Uint8Array ? [body] : body) {
    written += bytes.length;
    if (written > size) break;
    if (!member.write(bytes)) await untilReady(member);
    if (member.destroying) return;
  }
  if (written !== size)
    throw new SandboxdError(
      `${name} has ${written > size ? 'more than' : `only ${written} of`} its ${size} bytes: it changed while it was copied, or its size was wrong`,
    );
  member.end(undefined);
}

/** Numbers that do not fit into a header are written as records of an extended header. */
function fitHeader(header: NewMember): NewMember & { readonly pax?: Readonly<Record<string, string>> } {
  const { uid = 0, gid = 0, mtime = new Date() } = header;
  const seconds = Math.floor(mtime.getTime() / 1000);
  const fitting = Math.min(Math.max(seconds, 0), MAX_SECONDS);
  const pax = {
    ...(uid > MAX_ID && { uid: `${uid}` }),
    ...(gid > MAX_ID && { gid: `${gid}` }),
    ...(fitting !== seconds && { mtime: `${seconds}` }),
  };
  return {
    ...header,
    mode: header.mode | REGULAR_FILE,
    mtime: new Date(fitting * 1000),
    ...(Object.keys(pax).length > 0 && { pax }),
  };
}
