// Reads tar archives with tar-stream, and closes its gaps: a size that is not a number (it would wait for ever),
// extended headers without limit, and an archive without its end mark. It also runs in browsers.
import { extract, type Header } from 'tar-stream';

export type ArchiveHeader = Header & {
  /** Records of extended headers, decoded as UTF-8. */
  readonly pax?: Readonly<Record<string, string>> | null;
};

export type ArchiveMember = {
  readonly header: ArchiveHeader;
  /** To be read whole, or not at all. */
  readonly body: AsyncIterable<Uint8Array>;
};

/** The archive cannot be read; `message` is a sentence about it. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
}

const BLOCK_BYTES = 512;
/** Limit of the headers before one member, and size of the chunks in which they are parsed. */
const MAX_HEADER_BYTES = 128 << 10;
const CHUNK_BYTES = 64 << 10;
/** tar-stream copies all global records for each extended header, so many of them would take minutes of CPU time. */
const MAX_RECORDS = 100;
/** Archives of old programs have no magic number; their checksum is checked, too. */
const OPTIONS = { allowUnknownFormat: true };
const CUT_OFF = 'the archive is cut off (truncated): its end mark did not come';
/** What tar-stream says of an archive that ends within a member. */
const UNEXPECTED_END = 'Unexpected end of data';

/**
 * The members in order. Each is valid until the next is requested. Throws ArchiveError, and the errors of `source`
 * unchanged.
 */
export async function* readArchive(source: AsyncIterable<Uint8Array>): AsyncGenerator<ArchiveMember, void> {
  const archive = extract(OPTIONS as object);
  const fed = { bytes: 0, zeros: 0, problem: undefined as unknown, damage: undefined as unknown };
  const explain = (error: unknown): unknown => {
    if (fed.problem !== undefined || error instanceof ArchiveError) return fed.problem ?? error;
    // A member's stream may only say that it was destroyed.
    const cause = fed.damage ?? error;
    const message = cause instanceof Error ? cause.message : String(cause);
    const text =
      message === UNEXPECTED_END ? CUT_OFF : `this is not a tar archive, or it is damaged: ${message}`;
    return new ArchiveError(text, { cause });
  };
  archive.on('error', (error) => {
    fed.damage = error;
  });
  let contentEnd = 0;
  const feed = async (): Promise<void> => {
    for await (const chunk of source) {
      for (let at = 0; at < chunk.length; at += CHUNK_BYTES) {
        const bytes = chunk.subarray(at, at + CHUNK_BYTES);
        fed.bytes += bytes.length;
        fed.zeros = countZeros(bytes, fed.zeros);
        if (!archive.write(bytes)) await untilReady(archive);
        if (archive.destroying) return;
        if (fed.bytes - fed.zeros - contentEnd > MAX_HEADER_BYTES)
          throw new ArchiveError(
            `the archive has more than ${MAX_HEADER_BYTES} bytes of headers for one member`,
          );
      }
    }
    archive.end(undefined);
  };
  feed().catch((error: unknown) => {
    fed.problem = error;
    archive.destroy(error instanceof Error ? error : new Error(String(error)));
  });
  try {
    for await (const member of archive) {
      const { header, offset } = member;
      if (!Number.isSafeInteger(header.size))
        throw new ArchiveError(`the archive is damaged: a member of ${header.size} bytes`);
      if (Object.keys(member.header.pax ?? {}).length > MAX_RECORDS)
        throw new ArchiveError(`a member of the archive has more than ${MAX_RECORDS} extended records`);
      const isEmpty = header.type === 'directory';
      contentEnd = offset + BLOCK_BYTES + (isEmpty ? 0 : header.size);
      // Old archives have no type for directories and mark them with a trailing slash.
      if (header.type === 'file' && header.name.endsWith('/')) header.type = 'directory';
      // A directory with a size has a stream without an end.
      const body = isEmpty ? [] : (member as AsyncIterable<Uint8Array>);
      yield { header: header as ArchiveHeader, body: explained(body, explain) };
      // Passes over what was not read.
      member.resume();
    }
  } catch (error) {
    throw explain(error);
  } finally {
    archive.destroy();
  }
  if (fed.bytes === 0) throw new ArchiveError('the archive is empty');
  if (fed.zeros < BLOCK_BYTES || fed.bytes < contentEnd + BLOCK_BYTES) throw new ArchiveError(CUT_OFF);
}

type Flow = {
  readonly destroyed: boolean;
  on(event: 'drain' | 'close', listener: () => void): unknown;
  off(event: 'drain' | 'close', listener: () => void): unknown;
};

/** Resolves when a stream of tar-stream accepts more data, or is closed. */
export async function untilReady(stream: Flow): Promise<void> {
  if (stream.destroyed) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      stream.off('drain', done);
      stream.off('close', done);
      resolve();
    };
    stream.on('drain', done);
    stream.on('close', done);
  });
}

async function* explained(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  explain: (error: unknown) => unknown,
): AsyncGenerator<Uint8Array, void> {
  try {
    yield* body;
  } catch (error) {
    throw explain(error);
  }
}

/** The number of zero bytes at the end of the input so far. */
function countZeros(bytes: Uint8Array, before: number): number {
  let count = 0;
  while (count < bytes.length && bytes[bytes.length - 1 - count] === 0) count++;
  return count === bytes.length ? before + count : count;
}
