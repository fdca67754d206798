// Writes the files of the guest's identity, whatever the image has at their paths.
import { lstatSync, mkdirSync, rmdirSync, unlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { AgentError } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';

/**
 * Written by the addon: a copy of a guest is usable only after this, and Node's file calls are slow when emulated.
 * Throws AgentError when the file cannot be written.
 */
export function writeOwnFile(path: string, text: string): void {
  if (addon.replaceText(path, text) >= 0) return;
  ensureParent(dirname(path));
  clear(path);
  const result = addon.replaceText(path, text);
  if (result < 0) throw new AgentError('internal', `cannot write ${path}: error ${-result}`);
}

/** An image may have a file or a dangling link there. */
function ensureParent(dir: string): void {
  try {
    mkdirSync(dir, { recursive: true });
  } catch {
    unlinkSync(dir);
    mkdirSync(dir);
  }
}

/** An image may have an empty directory or a dangling link there. */
function clear(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory()) rmdirSync(path);
  else if (found?.isSymbolicLink()) unlinkSync(path);
}
