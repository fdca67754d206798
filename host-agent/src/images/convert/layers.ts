// Reads one layer: decompresses it, checks its digest and enforces the size limits.
import { createHash, type Hash } from 'node:crypto';
import { fstatSync, read, readSync } from 'node:fs';
import { Transform, type TransformCallback } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { TarError, TarReader, type TarSink } from '@sandboxd/proto';
import { explainDamage, HEAD_BYTES, packingOf } from '../packing.ts';
import { type ConvertLimits, FREE_RATIO_BYTES, ImageError, MAX_RATIO } from './limits.ts';

const readAt = (options: { fd: number; buffer: Buffer; position: number }) =>
  promisify(read)(options.fd, options.buffer, 0, options.buffer.length, options.position);
const CHUNK_BYTES = 256 * 1024;

export type Layer = {
  readonly fd: number;
  /** SHA-256 of the unpacked archive, with the prefix `sha256:`; absent: not checked. */
  readonly diffId?: string | undefined;
};

/** Totals over all layers. A layer that is listed twice counts twice in `bytes`, but only once in `packedBytes`. */
export type Budget = { bytes: number; packedBytes: number; readonly seen: Set<string> };

export function newBudget(): Budget {
  return { bytes: 0, packedBytes: 0, seen: new Set() };
}

/** Reads one layer into the sink. ImageError when the layer is damaged, has another digest, or exceeds a limit. */
export async function readLayer(
  { fd, diffId }: Layer,
  number: number,
  sink: TarSink,
  budget: Budget,
  limits: ConvertLimits,
): Promise<void> {
  const hash = diffId?.startsWith('sha256:') ? createHash('sha256') : undefined;
  const reader = new TarReader(sink, { hasAttributes: true });
  const { dev, ino, size } = fstatSync(fd);
  const file = `${dev}:${ino}`;
  if (!budget.seen.has(file)) budget.packedBytes += size;
  budget.seen.add(file);
  const meter = new Meter({ budget, limits, hash });
  try {
    await pipeline([
      () => readChunks(fd),
      ...unpackers(fd),
      meter,
      async (bytes: AsyncIterable<Buffer>) => {
        for await (const chunk of bytes) reader.push(chunk);
        // A truncated archive has another digest, so the digest check finds it; layers without an end marker are
        // common.
        if (!reader.isBetweenMembers) reader.end();
      },
    ]);
  } catch (error) {
    throw describe(error, number);
  }
  const digest = hash === undefined ? diffId : `sha256:${hash.digest('hex')}`;
  if (digest !== diffId)
    throw new ImageError(
      `layer ${number} unpacks to ${digest}, and the image says that it should be ${diffId}`,
    );
}

/** A read stream would close the descriptor, which belongs to the caller. */
async function* readChunks(fd: number): AsyncGenerator<Buffer> {
  for (let position = 0; ; ) {
    const { bytesRead, buffer } = await readAt({ fd, buffer: Buffer.allocUnsafe(CHUNK_BYTES), position });
    if (bytesRead === 0) return;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

function unpackers(fd: number): Transform[] {
  const head = Buffer.alloc(HEAD_BYTES);
  readSync(fd, head, 0, HEAD_BYTES, 0);
  const packing = packingOf(head);
  if (packing === undefined) return [];
  if (packing.unpack === undefined)
    throw new ImageError(`it is packed by ${packing.name}; gzip, zstd and none are taken`);
  return [packing.unpack({ chunkSize: CHUNK_BYTES })];
}

function describe(error: unknown, number: number): unknown {
  if (error instanceof ImageError || error instanceof TarError)
    return new ImageError(`layer ${number}: ${error.message}`, { cause: error });
  const damage = explainDamage(error);
  return damage === undefined
    ? error
    : new ImageError(`layer ${number} is damaged: ${damage}`, { cause: error });
}

type MeterOptions = {
  readonly budget: Budget;
  readonly limits: ConvertLimits;
  readonly hash: Hash | undefined;
};

class Meter extends Transform {
  readonly #options: MeterOptions;

  constructor(options: MeterOptions) {
    super();
    this.#options = options;
  }

  override _transform(chunk: Buffer, _encoding: string, done: TransformCallback): void {
    const { budget, limits, hash } = this.#options;
    budget.bytes += chunk.length;
    if (budget.bytes > limits.bytes)
      done(new ImageError(`the image unpacks to more than ${limits.bytes} bytes`));
    else if (budget.bytes > FREE_RATIO_BYTES && budget.bytes > MAX_RATIO * budget.packedBytes)
      done(
        new ImageError(
          `with it the image unpacks to more than ${MAX_RATIO} times the ${budget.packedBytes} bytes of its layers`,
        ),
      );
    else {
      hash?.update(chunk);
      done(null, chunk);
    }
  }
}
