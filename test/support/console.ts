// The console for tests: bundled once for a process, or none.

import { gzipSync } from 'node:zlib';
import { ConsoleFiles } from '../../host-agent/src/http/index.ts';
import { bundleConsole } from '../../scripts/build-console.ts';

export const NO_CONSOLE = new ConsoleFiles(new Map());

/** Files of the right names, for tests of other things. */
export const FAKE_CONSOLE = new ConsoleFiles(
  new Map(['index.html', 'console.js'].map((name) => [name, new Uint8Array(gzipSync(name))])),
);

let bundled: Promise<ConsoleFiles> | undefined;

export function testConsole(): Promise<ConsoleFiles> {
  bundled ??= bundleConsole().then((files) => new ConsoleFiles(files));
  return bundled;
}
