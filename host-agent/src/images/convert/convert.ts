// Layers → one image.
import { createHash } from 'node:crypto';
import { readSync } from 'node:fs';
import { DataWriter } from '../erofs/data.ts';
import { finishImage } from '../erofs/image.ts';
import { type Layer, newBudget, readLayer } from './layers.ts';
import { type ConvertLimits, ImageError } from './limits.ts';
import { Merger } from './merger.ts';

export type Converted = {
  /** SHA-256 of the image, hexadecimal. */
  readonly digest: string;
  readonly sizeBytes: number;
  /** Names in it. */
  readonly entries: number;
  /** Of all files of all layers. */
  readonly contentBytes: number;
};

export type ConvertInput = {
  /** Lowest first. */
  readonly layers: readonly Layer[];
  /** Of the new image, empty, for reading and writing. */
  readonly imageFd: number;
  readonly limits: ConvertLimits;
  /** Called with the number of layers that are done. */
  readonly onLayer?: (done: number) => void;
};

/** ImageError for what is no image; the image file is worth nothing then. */
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
  const piece = Buffer.allocUnsafeSlow(4 << 20);
  let position = 0;
  for (let got = -1; got !== 0; position += got) {
    got = readSync(fd, piece, 0, piece.length, position);
    hash.update(piece.subarray(0, got));
  }
  return hash.digest('hex');
}
