// Converts the layers of an image into one EROFS image.
import { createHash } from 'node:crypto';
import { readSync } from 'node:fs';
import { DataWriter } from '../erofs/data.ts';
import { finishImage } from '../erofs/image.ts';
import { type Layer, newBudget, readLayer } from './layers.ts';
import { type ConvertLimits, ImageError } from './limits.ts';
import { Merger } from './merger.ts';

export type Converted = {
  /** SHA-256 of the image file, in hexadecimal. */
  readonly digest: string;
  readonly sizeBytes: number;
  /** Number of directory entries in the image. */
  readonly entries: number;
  /** Total bytes of the files in all layers. */
  readonly contentBytes: number;
};

export type ConvertInput = {
  /** Lowest layer first. */
  readonly layers: readonly Layer[];
  /** The new image file: empty, open for reading and writing. */
  readonly imageFd: number;
  readonly limits: ConvertLimits;
  /** Called with the number of finished layers. */
  readonly onLayer?: (done: number) => void;
};

/** ImageError for invalid layers; the image file is unusable then. */
export async function convertLayers({ layers, imageFd, limits, onLayer }: ConvertInput): Promise<Converted> {
  if (layers.length > limits.layers)
    throw new ImageError(`the image has ${layers.length} layers; at most ${limits.layers} are possible`);
  const data = new DataWriter(imageFd);
  const merger = new Merger(data, limits);
  const budget = newBudget();
  for (const [index, layer] of layers.entries()) {
    merger.nextLayer();
    await readLayer(layer, index + 1, merger, budget, limits);
    onLayer?.(index + 1);
  }
  const { sizeBytes, entries } = finishImage(imageFd, data, merger.tree.root);
  return { digest: digestOf(imageFd), sizeBytes, entries, contentBytes: merger.contentBytes };
}

function digestOf(fd: number): string {
  const hash = createHash('sha256');
  const chunk = Buffer.allocUnsafeSlow(4 << 20);
  let position = 0;
  for (let bytesRead = -1; bytesRead !== 0; position += bytesRead) {
    bytesRead = readSync(fd, chunk, 0, chunk.length, position);
    hash.update(chunk.subarray(0, bytesRead));
  }
  return hash.digest('hex');
}

// The converter's job and reports: lines of JSON.
/** `diffIds` has, for each layer, the digest that the unpacked layer must have; null accepts any digest. */
export type Job = { readonly diffIds: readonly (string | null)[]; readonly limits: ConvertLimits };

export type Report =
  | { readonly layersDone: number }
  | { readonly converted: Converted }
  /** The image cannot be converted; the text is a sentence with the reason. */
  | { readonly problem: string }
  /** The converter itself failed; `code` is the errno name, or empty. */
  | { readonly failure: string; readonly code: string };

export function parseJob(text: string): Job {
  return JSON.parse(text) as Job;
}
