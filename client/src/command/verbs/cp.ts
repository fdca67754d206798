// `sandbox cp`: files and directories, both ways, or an archive through a pipe.
import { type FileHandle, mkdir, open, stat } from 'node:fs/promises';
import { basename, join, posix } from 'node:path';
import { platform } from '#platform';
import type { Bytes } from '../../connection/transport.ts';
import { BadRequestError, NotFoundError } from '../../errors.ts';
import type { Files } from '../../files/files.ts';
import { packFile } from '../../files/one-file.ts';
import { counted } from '../../images.ts';
import { formatBytes, type Progress } from '../terminal.ts';
import { type Session, UsageError, type Verb } from '../verb.ts';
import { writeWhole } from '../whole-file.ts';

const PIECE_BYTES = 256 << 10;

type Copied = { readonly files?: number; readonly bytes: number };

export const cp: Verb = {
  name: 'cp',
  operands: '<source> <target>',
  completes: ['place', 'place'],
  summary: 'Copy files and directories into a sandbox, or out of it',
  details:
    'One of the two is <sandbox>:<path>. A directory goes into the target when that is there, and becomes it when not; of <directory>/. only the contents go. - is a tar archive on standard input or output.',
  flags: { quiet: { type: 'boolean', short: 'q', help: 'no bar' } },
  count: [2, 2],
  example: 'sandbox cp notes.txt $ID:/srv/',
  async run({ operands: [from = '', to = ''], isSet }, session) {
    const [source, target] = [toPlace(from), toPlace(to)];
    if ((source === undefined) === (target === undefined))
      throw new UsageError('one of source and target must be <sandbox>:<path>, the other a path here');
    const label = `${from} → ${to}`;
    const copied =
      target === undefined
        ? await copyOut(session, source ?? { id: '', path: '' }, to, label, isSet('quiet'))
        : await copyIn(session, from, target, label, isSet('quiet'));
    if (session.isJson) session.terminal.printJson(copied);
    else session.terminal.note(`${label}  ${formatBytes(copied.bytes)}`);
    return 0;
  },
};

type Place = { readonly id: string; readonly path: string };

function toPlace(word: string): Place | undefined {
  const [, id, path] = /^(sbx_[^:/]*):(.*)$/.exec(word) ?? [];
  if (id === undefined || path === undefined) return undefined;
  if (!path.startsWith('/'))
    throw new UsageError(`${JSON.stringify(word)} must have an absolute path behind the :`);
  return { id, path };
}

async function copyIn(
  session: Session,
  from: string,
  { id, path }: Place,
  label: string,
  isQuiet: boolean,
): Promise<Copied> {
  const { client, signal, terminal } = session;
  const { files } = client.sandboxes.get(id);
  const send = async (directory: string, archive: Bytes, totalBytes?: number) => {
    using progress = isQuiet ? undefined : terminal.progress(label, totalBytes);
    return await files.extract(directory, counted(archive, progress?.update ?? (() => {})), { signal });
  };
  if (from === '-') return send(path, terminal.stdin);
  // Opened once: what is looked at is what is sent.
  await using source = await open(from);
  const about = await source.stat();
  if (about.isDirectory()) {
    const isContents = /(?:^|\/)\.$/.test(from);
    const isInside = !isContents && (await isDirectory(files, path, signal));
    return send(isInside ? posix.join(path, basename(from)) : path, platform.packDirectory(from));
  }
  const isInside = path.endsWith('/') || (await isDirectory(files, path, signal));
  const [directory, name] = isInside ? [path, basename(from)] : [posix.dirname(path), posix.basename(path)];
  // What says that it has no bytes may be a pipe or a file of /proc: an archive begins with the size. Of one that grows, the beginning.
  const hasSize = about.isFile() && about.size > 0;
  const data = hasSize ? readPieces(source, about.size) : await source.readFile({ signal });
  const sizeBytes = Buffer.isBuffer(data) ? data.length : about.size;
  const archive = packFile(name, data, { mode: about.mode & 0o7777, sizeBytes });
  const { bytes } = await send(directory, archive, sizeBytes);
  return { files: 1, bytes };
}

async function* readPieces(file: FileHandle, sizeBytes: number): Bytes {
  for (let at = 0; at < sizeBytes; ) {
    const buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, sizeBytes - at));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

async function copyOut(
  session: Session,
  { id, path }: Place,
  to: string,
  label: string,
  isQuiet: boolean,
): Promise<Copied> {
  const { client, signal, terminal } = session;
  const { files } = client.sandboxes.get(id);
  let bytes = 0;
  const receive = (body: Bytes, progress: Progress | undefined): Bytes =>
    counted(body, (sum) => {
      bytes = sum;
      progress?.update(sum);
    });
  const isInside = await stat(to).then(
    (about) => about.isDirectory(),
    () => false,
  );
  const here = isInside ? join(to, posix.basename(posix.normalize(path))) : to;
  const source = await openFile(files, path, signal);
  using progress = isQuiet ? undefined : terminal.progress(label, source?.sizeBytes);
  if (to === '-') {
    const name = posix.basename(path);
    const archive = source
      ? packFile(name, source, { mode: 0o644, sizeBytes: source.sizeBytes })
      : await files.tar(path, { signal });
    for await (const part of receive(archive, undefined)) await terminal.write(part);
  } else if (source === undefined) {
    await mkdir(here, { recursive: true });
    await platform.unpackDirectory(receive(await files.tar(path, { signal }), progress), here);
  } else await writeWhole(here, receive(source, progress), signal);
  return { bytes };
}

/** Undefined for a directory. */
async function openFile(files: Files, path: string, signal: AbortSignal, maxBytes?: number) {
  try {
    return await files.stream(path, { signal, ...(maxBytes !== undefined && { maxBytes }) });
  } catch (error) {
    if (error instanceof BadRequestError && / is a directory\b/.test(error.message)) return undefined;
    throw error;
  }
}

async function isDirectory(files: Files, path: string, signal: AbortSignal): Promise<boolean> {
  try {
    const file = await openFile(files, path, signal, 1);
    // Nothing of it is read.
    await file?.[Symbol.asyncIterator]().return?.();
    return file === undefined;
  } catch (error) {
    if (error instanceof NotFoundError && /sandbox/.test(error.message)) throw error;
    if (error instanceof NotFoundError || error instanceof BadRequestError) return false;
    throw error;
  }
}
