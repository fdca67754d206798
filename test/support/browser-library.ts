// The client library, for a test's web page.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { bundleBrowser } from '../../scripts/build-client.ts';

/** The bundle as a script that defines the library as `sandboxd`. */
export async function bundleLibrary(t: Test): Promise<string> {
  const path = join(t.testdir({}), 'client.js');
  await bundleBrowser(path, { format: 'iife', globalName: 'sandboxd' });
  return `${readFileSync(path, 'utf8')}; globalThis.sandboxd = sandboxd; 0`;
}

/** Wraps a script in an async function and evaluates to its result. */
export const script = (body: string): string => `(async () => { ${body} })()`;
