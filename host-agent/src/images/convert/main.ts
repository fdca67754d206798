// The converter program: merges the layers into the image. It inherits layers and image as open descriptors, so that it
// needs no file names, no network and no privileges. It runs in a jail and exits when its standard input closes.

import { convertLayers, parseJob, type Report } from './convert.ts';
import { ImageError } from './limits.ts';

/** Descriptors 0 to 2 are the standard streams, 3 is the image, the layers follow. */
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
