// A chunk of a file in the store: compressed, then encrypted.
import { promisify } from 'node:util';
import { constants, zstdCompress, zstdDecompress } from 'node:zlib';
import { firstLine } from '../lib/errors.ts';
import { CHUNK_OVERHEAD_BYTES, damaged, type TenantKeys } from './store-keys.ts';

export const CHUNK_BYTES = 2 ** 20;
/** Content that zstd makes longer is stored as it is. */
export const MAX_SEALED_CHUNK_BYTES = CHUNK_BYTES + 1 + CHUNK_OVERHEAD_BYTES;
export const CHUNK_NAME = /^[0-9a-f]{64}$/;

const RAW = 0;
const ZSTD = 1;
const LEVEL = 1;
/** Memory for decoding: a chunk needs no larger window than itself. */
const WINDOW_LOG = 20;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

export function chunkPath({ tag }: TenantKeys, name: string): string {
  return `chunks/${tag}/${name.slice(0, 2)}/${name}`;
}

export async function sealChunk(keys: TenantKeys, name: string, plain: Buffer): Promise<Buffer> {
  const packed = await compress(plain, { params: { [constants.ZSTD_c_compressionLevel]: LEVEL } });
  const isSmaller = packed.length < plain.length;
  return keys.seal(name, Buffer.concat([Buffer.from([isSmaller ? ZSTD : RAW]), isSmaller ? packed : plain]));
}

/** AppError `internal` unless it is exactly what has this name, of this length. */
export async function openChunk(
  keys: TenantKeys,
  name: string,
  sealed: Buffer,
  length: number,
): Promise<Buffer> {
  const packed = keys.open(name, sealed);
  const plain = await unpack(packed, length).catch((cause) => {
    throw damaged(`the chunk ${name} cannot be unpacked: ${firstLine(cause)}`, cause);
  });
  if (plain.length !== length || keys.nameOf(plain) !== name)
    throw damaged(`the chunk ${name} has another content`);
  return plain;
}

async function unpack(packed: Buffer, maxOutputLength: number): Promise<Buffer> {
  const content = packed.subarray(1);
  if (packed[0] === RAW) return content;
  if (packed[0] !== ZSTD) throw new Error('it is packed in an unknown way');
  const params = { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG };
  return await decompress(content, { maxOutputLength, params });
}
