// Extended attributes of files, in the namespace `user`.
import { constants } from 'node:os';
import { AgentError, type FileAttributeInput, MAX_FILE_ATTRIBUTES, showName } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';
import { fileError } from './errors.ts';

const { ENOTSUP, EINVAL, ENOSPC, E2BIG, ERANGE, EPERM } = constants.errno;
const TOO_LARGE: ReadonlySet<number> = new Set([ENOSPC, E2BIG, ERANGE]);

/** What an attribute counts in a list, without its texts: a page of 1 MiB stays below MAX_LISTED_ATTRIBUTES. */
const ATTRIBUTE_BYTES = 64;

/** Those that the effective user may read; none where the file system has none. */
export function readAttributes(directory: number, leaf: string): FileAttributeInput[] {
  const found = addon.attributesOf(directory, leaf);
  if (typeof found === 'number') return [];
  const attributes: FileAttributeInput[] = [];
  const end = Math.min(found.length, 2 * MAX_FILE_ATTRIBUTES);
  for (let at = 0; at < end; at += 2)
    attributes.push({ name: toBytes(found[at]), value: toBytes(found[at + 1]) });
  return attributes;
}

/** What they count in a list. */
export function sizeOfAttributes(attributes: readonly FileAttributeInput[]): number {
  let bytes = 0;
  for (const { name, value } of attributes)
    bytes += ATTRIBUTE_BYTES + (name?.length ?? 0) + (value?.length ?? 0);
  return bytes;
}

/** `path` names the file in errors. Throws AgentError. */
export function setAttributes(fd: number, attributes: readonly FileAttributeInput[], path: string): void {
  for (const { name, value } of attributes) {
    const text = Buffer.from(name ?? []).toString('latin1');
    const result =
      value === undefined || value === null
        ? addon.removeAttribute(fd, text)
        : addon.setAttribute(fd, text, value);
    if (result < 0) throw attributeError(result, path);
  }
}

function attributeError(result: number, path: string): AgentError {
  const file = showName(path);
  if (result === -ENOTSUP)
    return new AgentError('invalid', `the file system of ${file} has no extended attributes`);
  if (TOO_LARGE.has(-result))
    return new AgentError('invalid', `${file} has no room for these extended attributes in its file system`);
  if (result === -EINVAL || result === -EPERM)
    return new AgentError('invalid', `${file} cannot have these extended attributes`);
  return fileError(result, path);
}

function toBytes(text: string | undefined): Uint8Array {
  return Buffer.from(text ?? '', 'latin1');
}
