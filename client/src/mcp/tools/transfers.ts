// Tools that copy between a sandbox and the one directory of this machine that the operator named.
import { constants, open } from 'node:fs/promises';
import { posix } from 'node:path';
import { z } from 'zod';
import type { Bytes } from '../../connection/transport.ts';
import { SandboxdError } from '../../errors.ts';
import { packFile } from '../../files/one-file.ts';
import type { HeldDirectory } from '../../platform/held-directory.ts';
import { packDirectory, readChunks } from '../../platform/pack-directory.ts';
import { FOREIGN, unpackDirectory } from '../../platform/unpack-directory.ts';
import { writeWholeIn } from '../../platform/whole-file.ts';
import type { Scope } from '../scope.ts';
import { text, tool } from '../tool.ts';
import { sandboxWord } from './sandboxes.ts';

/** Of a directory that is downloaded. */
const MAX_ENTRIES = 100_000;
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;

const input = z.strictObject({
  sandbox: sandboxWord,
  local_path: z
    .string()
    .min(1)
    .max(4096)
    .describe('path of a file or directory, relative to the shared directory'),
  path: z.string().min(1).max(4096).describe('absolute path in the sandbox'),
});

export const uploadFile = tool({
  name: 'upload_file',
  description: 'Copy a file or a directory of this machine into a sandbox, to exactly this path.',
  effect: 'deletes',
  input,
  async run({ sandbox, local_path: localPath, path }, { scope, signal }) {
    const { files } = await scope.sandbox(sandbox, { signal });
    const names = toNames(localPath);
    await using root = await openShared(scope);
    await using parent = await root.enterAll(names.slice(0, -1));
    const name = names.at(-1);
    await using directory = name === undefined ? await root.enterAll([]) : await enter(parent, name);
    if (directory !== undefined) {
      const { files: count } = await files.extract(path, packDirectory(directory), { signal });
      return text(`copied ${count} files to ${path}`);
    }
    // A link at the end could lead to any file of this machine.
    await using source = await open(parent.at(name ?? ''), O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(
      (error: unknown) => {
        throw parent.withShownPath(error);
      },
    );
    const about = await source.stat();
    if (!about.isFile()) throw new SandboxdError(`${localPath} is not a file`);
    const [to, toName] = [posix.dirname(path), posix.basename(path)];
    const header = { mode: about.mode & 0o777, sizeBytes: about.size };
    await files.extract(to, packFile(toName, readChunks(source, about.size), header), { signal });
    return text(`copied ${about.size} bytes to ${path}`);
  },
});

export const downloadFile = tool({
  name: 'download_file',
  description: 'Copy a file or a directory of a sandbox to this machine, to exactly this path.',
  effect: 'deletes',
  input,
  async run({ sandbox, local_path: localPath, path }, { scope, signal }) {
    const { files } = await scope.sandbox(sandbox, { signal });
    const names = toNames(localPath);
    const name = names.at(-1);
    if (name === undefined) throw new SandboxdError('name a file or directory in the shared directory');
    await using root = await openShared(scope);
    await using parent = await enterMaking(root, names.slice(0, -1));
    const { type, size_bytes: size } = await files.stat(path, { signal });
    const maxBytes = scope.bounds.downloadBytes;
    if (type === 'directory') {
      await using directory = await parent.enter(name, 0o777);
      await unpackDirectory(bounded(await files.tar(path, { signal }), maxBytes), directory, MAX_ENTRIES);
      return text(`copied ${path} to ${localPath}`);
    }
    if (size > maxBytes) throw tooLong(maxBytes);
    const body = await files.content(path, { signal });
    await writeWholeIn(parent, name, bounded(body, maxBytes), { signal });
    return text(`copied ${path} to ${localPath}`);
  },
});

async function openShared({ bounds: { localDirectory } }: Scope): Promise<HeldDirectory> {
  if (localDirectory === undefined) throw new SandboxdError('this server has no shared directory');
  return localDirectory.enterAll([]);
}

/** What a guest sends must not fill the disk of this machine, whatever size it gave before. */
async function* bounded(body: Bytes, maxBytes: number): AsyncGenerator<Uint8Array, void> {
  let bytes = 0;
  for await (const part of body) {
    bytes += part.length;
    if (bytes > maxBytes) throw tooLong(maxBytes);
    yield part;
  }
}

function tooLong(maxBytes: number): SandboxdError {
  return new SandboxdError(`it has more than ${maxBytes} bytes, the limit of a copy here`);
}

/** Names on the way. Links are followed nowhere, so no path leads out. SandboxdError for `..` and absolute paths. */
function toNames(path: string): string[] {
  if (path.startsWith('/') || path.includes('\0')) throw new SandboxdError('local_path must be relative');
  // Such as the separators of Windows.
  if (FOREIGN?.test(path)) throw new SandboxdError('local_path has a character that names here cannot have');
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  if (names.includes('..')) throw new SandboxdError('local_path must not have ..');
  return names;
}

/** Undefined for what is not a directory. */
async function enter(parent: HeldDirectory, name: string): Promise<HeldDirectory | undefined> {
  return parent.enter(name).catch((error: unknown) => {
    if (error instanceof SandboxdError) return undefined;
    throw error;
  });
}

async function enterMaking(root: HeldDirectory, names: readonly string[]): Promise<HeldDirectory> {
  let held = await root.enterAll([]);
  for (const name of names) {
    await using parent = held;
    held = await parent.enter(name, 0o777);
  }
  return held;
}
