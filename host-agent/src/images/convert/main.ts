// A program: layers that it inherits as descriptors become one image in another one. It needs nothing else: no name of a file, no
// network, no privilege. It runs in a jail, and ends when its standard input does.

import { convertLayers } from './convert.ts';
import { parseJob, type Report } from './job.ts';
import { ImageError } from './limits.ts';

/** The standard three, the image, then the layers. */
const IMAGE_FD = 3;
const FIRST_LAYER_FD = 4;

const { diffIds, limits } = parseJob(process.argv[2] ?? '');
process.stdin.on('end', () => process.exit(1)).resume();
try {
  const converted = await convertLayers({
    layers: diffIds.map((diffId, index) => ({
      fd: FIRST_LAYER_FD + index,
      ...(diffId !== null && { diffId }),
    })),
    imageFd: IMAGE_FD,
    limits,
    onLayer: (done) => report({ layersDone: done }),
  });
  report({ converted });
} catch (error) {
  if (error instanceof ImageError) report({ problem: error.message });
  else
    report({
      failure: error instanceof Error ? (error.stack ?? error.message) : String(error),
      code: codeOf(error),
    });
}
process.exit(0);

function report(line: Report): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
