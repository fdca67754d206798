// Waits for a snapshot's checksums, which are computed in the background after the response.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from './until.ts';

/** `dir` is the snapshot's directory. */
export function checksummed(dir: string): Promise<void> {
  const isDone = (): boolean => {
    const { files } = JSON.parse(readFileSync(join(dir, 'manifest.json'), 'utf8')) as {
      files: Record<string, { checksum?: string }>;
    };
    return Object.values(files).every(({ checksum }) => checksum !== undefined);
  };
  return until(isDone, `the checksums of ${dir}`);
}
