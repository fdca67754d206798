// Files that say who the guest is, in whatever root an image made.
import { lstatSync, mkdirSync, rmdirSync, unlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { AgentError } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';

/**
 * Natively: a copy of a guest is not usable before this is done, and emulated, Node's own file calls take their time. AgentError
 * when it cannot be.
 */
export function writeOwnFile(path: string, text: string): void {
  if (addon.replaceText(path, text) >= 0) return;
  ensureParent(dirname(path));
  clear(path);
  const result = addon.replaceText(path, text);
  if (result < 0) throw new AgentError('internal', `cannot write ${path}: error ${-result}`);
}

/** An image may have a file there, or a link that leads nowhere. */
function ensureParent(dir: string): void {
  try {
    mkdirSync(dir, { recursive: true });
  } catch {
    unlinkSync(dir);
    mkdirSync(dir);
  }
}

/** An image may have an empty directory there, or a link that leads nowhere. */
function clear(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory()) rmdirSync(path);
  else if (found?.isSymbolicLink()) unlinkSync(path);
}
