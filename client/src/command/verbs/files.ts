// `sandbox ls`, `cat`, `mkdir`, `mv` and `edit`: single files of a sandbox.
import { spawn } from 'node:child_process';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import process from 'node:process';
import { type Input, UsageError } from '@sandboxd/api/command-line';
import type { FileEntry } from '../../contract.ts';
import { NotFoundError, PreconditionError, SandboxdError } from '../../errors.ts';
import type { Sandbox } from '../../sandbox.ts';
import { formatBytes } from '../terminal.ts';
import type { Flags, Session, Verb } from '../verb.ts';

const PLACE = '<sandbox>:<path>';
export const USER: Flags = {
  user: {
    type: 'string',
    short: 'u',
    placeholder: 'name',
    help: 'user of the sandbox whose rights apply; default: root',
  },
};
/** First letter of a mode. */
export const KINDS: Readonly<Record<string, string>> = {
  file: '-',
  directory: 'd',
  symlink: 'l',
  fifo: 'p',
  socket: 's',
  'character-device': 'c',
  'block-device': 'b',
};

export type Place = { readonly id: string; readonly path: string };

/** `<sandbox>:<path>`; undefined for a path here. UsageError for a relative path. */
export function toPlace(word: string): Place | undefined {
  const [, id, path] = /^(sbx_[^:/]*):(.*)$/.exec(word) ?? [];
  if (id === undefined || path === undefined) return undefined;
  if (!path.startsWith('/'))
    throw new UsageError(`${JSON.stringify(word)} must have an absolute path behind the :`);
  return { id, path };
}

export function placeOf(word = ''): Place {
  const place = toPlace(word);
  if (place === undefined) throw new UsageError(`${JSON.stringify(word)} must be ${PLACE}`);
  return place;
}

export function options({ text }: Input, { signal }: Session) {
  const user = text('user');
  return { signal, ...(user !== undefined && { user }) };
}

export const ls: Verb = {
  name: 'ls',
  operands: '<sandbox:path>',
  completes: ['place'],
  summary: 'List a directory of a sandbox',
  flags: {
    ...USER,
    recursive: { type: 'boolean', short: 'R', help: 'list subdirectories, too' },
    long: { type: 'boolean', short: 'l', help: 'show permissions, owner, size and time' },
  },
  example: 'sandbox ls -l $ID:/etc',
  async run(input, session) {
    const { id, path } = placeOf(input.operands[0]);
    const { client, terminal, isJson } = session;
    const { files } = client.sandboxes.get(id);
    const depth = input.isSet('recursive') ? 256 : 1;
    const prefix = path.endsWith('/') ? path.length : path.length + 1;
    const entries: FileEntry[] = [];
    for await (const entry of files.list(path, { depth, ...options(input, session) })) {
      // A long list appears as it arrives.
      if (!isJson && !input.isSet('long')) terminal.print(entry.path.slice(prefix));
      else entries.push(entry);
    }
    if (isJson) terminal.printJson(entries);
    else if (input.isSet('long'))
      terminal.table(
        ['MODE', 'OWNER', 'SIZE', 'MODIFIED', 'NAME'],
        entries.map((entry) => [
          `${KINDS[entry.type] ?? '?'}${entry.mode}`,
          `${entry.user ?? entry.uid}:${entry.group ?? entry.gid}`,
          formatBytes(entry.size_bytes),
          entry.modified_at.slice(0, 19).replace('T', ' '),
          entry.path.slice(prefix) + (entry.target === undefined ? '' : ` → ${entry.target}`),
        ]),
      );
    return 0;
  },
};

export const cat: Verb = {
  name: 'cat',
  operands: '<sandbox:path…>',
  completes: ['place'],
  summary: 'Print files of a sandbox',
  flags: USER,
  example: 'sandbox cat $ID:/etc/os-release',
  async run(input, session) {
    for (const { id, path } of input.operands.map(placeOf)) {
      const content = await session.client.sandboxes.get(id).files.content(path, options(input, session));
      for await (const bytes of content) await session.terminal.write(bytes);
    }
    return 0;
  },
};

export const mkdir: Verb = {
  name: 'mkdir',
  operands: '<sandbox:path…>',
  completes: ['place'],
  summary: 'Make directories in a sandbox, with their parents',
  flags: USER,
  example: 'sandbox mkdir $ID:/srv/data',
  async run(input, session) {
    const made: FileEntry[] = [];
    for (const { id, path } of input.operands.map(placeOf))
      made.push(
        await session.client.sandboxes
          .get(id)
          .files.mkdir(path, { mayExist: true, ...options(input, session) }),
      );
    if (session.isJson) session.terminal.printJson(made);
    return 0;
  },
};

export const mv: Verb = {
  name: 'mv',
  operands: '<sandbox:path> <path>',
  completes: ['place', 'place'],
  summary: 'Move or rename a file or directory of a sandbox',
  details:
    'An existing directory as target takes the file in. The target may be a path, or <sandbox>:<path>.',
  flags: { ...USER, force: { type: 'boolean', short: 'f', help: 'replace an existing file' } },
  example: 'sandbox mv $ID:/etc/motd /etc/motd.old',
  async run(input, session) {
    const { id, path } = placeOf(input.operands[0]);
    const [, to = ''] = input.operands;
    const target = toPlace(to) ?? { id, path: to };
    if (target.id !== id)
      throw new UsageError('both paths must be of the same sandbox; use cp to copy to another');
    if (!target.path.startsWith('/')) throw new UsageError(`${JSON.stringify(to)} must be an absolute path`);
    const { files } = session.client.sandboxes.get(id);
    const call = options(input, session);
    const isDirectory = await files.stat(target.path, call).then(
      ({ type }) => type === 'directory',
      (error: unknown) => {
        if (error instanceof NotFoundError) return false;
        throw error;
      },
    );
    const name = isDirectory ? posix.join(target.path, posix.basename(path)) : target.path;
    const entry = await files.move(path, name, { overwrite: input.isSet('force'), ...call });
    if (session.isJson) session.terminal.printJson(entry);
    return 0;
  },
};

export const edit: Verb = {
  name: 'edit',
  operands: '<sandbox:path>',
  completes: ['place'],
  summary: 'Edit a file of a sandbox with $EDITOR',
  details:
    'A file that does not exist is created. If the file was changed in the sandbox meanwhile, nothing is written and your text is kept.',
  flags: USER,
  example: 'sandbox edit $ID:/etc/motd',
  async run(input, session) {
    const { id, path } = placeOf(input.operands[0]);
    const sandbox = session.client.sandboxes.get(id);
    const { files } = sandbox;
    const call = options(input, session);
    const directory = await mkdtemp(join(tmpdir(), 'sandbox-edit-'));
    const local = join(directory, posix.basename(path));
    let isKept = false;
    try {
      const etag = await download(sandbox, path, local, call);
      const before = await readLocal(local);
      await runEditor(local, session.signal);
      const text = await readLocal(local);
      if (etag !== undefined && text.equals(before)) {
        session.terminal.note('nothing was changed');
        return 0;
      }
      isKept = true;
      const condition = etag === undefined ? { ifNoneMatch: '*' } : { ifMatch: etag };
      const entry = await files.replace(path, text, { ...condition, ...call });
      isKept = false;
      if (session.isJson) session.terminal.printJson(entry);
      else session.terminal.note(`${path}  ${formatBytes(entry.size_bytes)}`);
      return 0;
    } catch (error) {
      if (!isKept) throw error;
      const why =
        error instanceof PreconditionError
          ? 'it was changed in the sandbox meanwhile'
          : (error as Error).message;
      throw new SandboxdError(`${path} was not written: ${why}; your text is in ${local}`, { cause: error });
    } finally {
      if (!isKept) await rm(directory, { recursive: true, force: true });
    }
  },
};

/** The ETag; undefined for a file that does not exist, which becomes an empty one here. */
async function download(
  sandbox: Sandbox,
  path: string,
  local: string,
  call: { readonly signal: AbortSignal },
): Promise<string | undefined> {
  await using file = await open(local, 'wx', 0o600);
  try {
    const content = await sandbox.files.content(path, call);
    for await (const bytes of content) await file.write(bytes);
    return content.etag;
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    // Without the sandbox there is nothing to edit.
    await sandbox.info({ signal: call.signal });
    return undefined;
  }
}

async function readLocal(path: string): Promise<Buffer> {
  await using file = await open(path, 'r');
  return await file.readFile();
}

/** SandboxdError if the editor fails. */
async function runEditor(path: string, signal: AbortSignal): Promise<void> {
  const editor = process.env.VISUAL || process.env.EDITOR || 'vi';
  // A shell, because the variable may hold arguments, as for other programs.
  const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', path], { stdio: 'inherit', signal });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', resolve);
  });
  if (code !== 0)
    throw new SandboxdError(`the editor ${editor} ended with ${code ?? 'a signal'}; nothing was written`);
}
