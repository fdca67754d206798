// `sandbox cp`: copies files and directories in both directions, or a tar archive through a pipe.
import { open } from 'node:fs/promises';
import { basename, posix } from 'node:path';
import { UsageError } from '@sandboxd/api/command-line';
import type { Bytes } from '../../connection/transport.ts';
import { BadRequestError, NotFoundError } from '../../errors.ts';
import type { Files } from '../../files/files.ts';
import { packFile } from '../../files/one-file.ts';
import { counted } from '../../images.ts';
import { HeldDirectory } from '../../platform/held-directory.ts';
import { packDirectory, readChunks } from '../../platform/pack-directory.ts';
import { unpackDirectory } from '../../platform/unpack-directory.ts';
import { writeWhole, writeWholeIn } from '../../platform/whole-file.ts';
import { formatBytes, type Progress } from '../terminal.ts';
import type { Session, Verb } from '../verb.ts';
import { type Place, toPlace } from './files.ts';

type Copied = { readonly files?: number; readonly bytes: number };

export const cp: Verb = {
  name: 'cp',
  operands: '<source> <target>',
  completes: ['place', 'place'],
  summary: 'Copy files and directories into or out of a sandbox',
  details:
    'Either source or target is <sandbox>:<path>. A directory is copied into an existing target directory, and otherwise becomes the target; <directory>/. copies only its contents. - is a tar archive on standard input or output.',
  flags: { quiet: { type: 'boolean', short: 'q', help: 'show no progress' } },
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
  // Opened once, so that the checked file is the file that is sent (TOCTOU).
  await using directory = await openDirectory(from);
  if (directory !== undefined) {
    const isContents = /(?:^|\/)\.$/.test(from);
    const isInside = !isContents && (await isDirectory(files, path, signal));
    return await send(isInside ? posix.join(path, basename(from)) : path, packDirectory(directory));
  }
  await using source = await open(from);
  const about = await source.stat();
  const isInside = path.endsWith('/') || (await isDirectory(files, path, signal));
  const [place, name] = isInside ? [path, basename(from)] : [posix.dirname(path), posix.basename(path)];
  // A file of size 0 may be a pipe or a file of /proc. A tar header needs the size, so such a file is read first. A
  // growing file is cut off at its first size.
  const hasSize = about.isFile() && about.size > 0;
  const data = hasSize ? readChunks(source, about.size) : await source.readFile({ signal });
  const sizeBytes = Buffer.isBuffer(data) ? data.length : about.size;
  const archive = packFile(name, data, { mode: about.mode & 0o7777, sizeBytes });
  const { bytes } = await send(place, archive, sizeBytes);
  return { files: 1, bytes };
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
  const source = await openFile(files, path, signal);
  using progress = isQuiet ? undefined : terminal.progress(label, source?.sizeBytes);
  const name = posix.basename(posix.normalize(path));
  if (to === '-') {
    const archive = source
      ? packFile(name, source, { mode: 0o644, sizeBytes: source.sizeBytes })
      : await files.tar(path, { signal });
    for await (const part of receive(archive, undefined)) await terminal.write(part);
    return { bytes };
  }
  await using target = await openDirectory(to);
  if (source !== undefined) {
    const body = receive(source, progress);
    if (target === undefined) await writeWhole(to, body, { signal });
    else await writeWholeIn(target, name, body, { signal });
    return { bytes };
  }
  const archive = receive(await files.tar(path, { signal }), progress);
  if (target === undefined || name === '') {
    await using created = target ?? (await HeldDirectory.ensure(to));
    await unpackDirectory(archive, created);
  } else {
    await using created = await target.enter(name, 0o777);
    await unpackDirectory(archive, created);
  }
  return { bytes };
}

/** Opens a local directory; undefined for a file or a missing path. */
async function openDirectory(path: string): Promise<HeldDirectory | undefined> {
  try {
    return await HeldDirectory.open(path);
  } catch (error) {
    if (/^(?:ENOENT|ENOTDIR)$/.test((error as { code?: string }).code ?? '')) return undefined;
    throw error;
  }
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
    // Closes the stream without reading it.
    await file?.[Symbol.asyncIterator]().return?.();
    return file === undefined;
  } catch (error) {
    if (error instanceof NotFoundError && /sandbox/.test(error.message)) throw error;
    if (error instanceof NotFoundError || error instanceof BadRequestError) return false;
    throw error;
  }
}
