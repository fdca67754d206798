// The library as a page of a test loads it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { bundleBrowser } from '../../scripts/build-client.ts';

/** The bundle as a script that leaves the library in `sandboxd`. */
export async function bundleLibrary(t: Test): Promise<string> {
  const path = join(t.testdir({}), 'client.js');
  await bundleBrowser(path, { format: 'iife', globalName: 'sandboxd' });
  return `${readFileSync(path, 'utf8')}; globalThis.sandboxd = sandboxd; 0`;
}

/** A script in an async function whose value is asked for. */
export const script = (body: string): string => `(async () => { ${body} })()`;
