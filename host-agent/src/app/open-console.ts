// The console within the executable.
import { getAssetKeys, getRawAsset, isSea } from 'node:sea';
import { ConsoleFiles } from '../http/index.ts';

/** Prefix of its files among the assets of the executable. */
const CONSOLE = 'console/';

/** Another way to run the program has none. */
export function openConsole(): ConsoleFiles {
  const names = isSea() ? getAssetKeys().filter((name) => name.startsWith(CONSOLE)) : [];
  const files = names.map((name) => [name.slice(CONSOLE.length), new Uint8Array(getRawAsset(name))] as const);
  return new ConsoleFiles(new Map(files));
}
