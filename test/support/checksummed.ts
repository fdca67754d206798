// Waiting for the checksums of a snapshot, which are taken behind its answer.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from './until.ts';

/** `dir` is the snapshot's. */
export function checksummed(dir: string): Promise<void> {
  const isDone = (): boolean => {
    const { files } = JSON.parse(readFileSync(join(dir, 'manifest.json'), 'utf8')) as {
      files: Record<string, { checksum?: string }>;
    };
    return Object.values(files).every(({ checksum }) => checksum !== undefined);
  };
  return until(isDone, `the checksums of ${dir}`);
}
