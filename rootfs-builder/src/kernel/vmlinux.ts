// bzImage → the uncompressed ELF kernel in it, checked to be startable without a boot loader (PVH).
import { spawnSync } from 'node:child_process';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { BuilderError } from '../errors.ts';
import { hasPvhNote, isElf } from './elf.ts';
import { decodeLz4Legacy, LZ4_LEGACY_MAGIC } from './lz4.ts';

// Offsets of the x86 boot protocol header (Documentation/x86/boot.rst).
const SETUP_SECTORS_AT = 0x1f1;
const HEADER_MAGIC_AT = 0x202;
const HEADER_MAGIC = 'HdrS';
const VERSION_AT = 0x206;
const PAYLOAD_OFFSET_AT = 0x248;
const PAYLOAD_LENGTH_AT = 0x24c;
/** Protocol 2.08 introduced the payload fields. */
const MIN_VERSION = 0x0208;
const SECTOR_BYTES = 512;
/** Linux appends the uncompressed size to payloads of formats that do not hold it. */
const SIZE_TRAILER_BYTES = 4;
const MAX_KERNEL_BYTES = 512 << 20;

/** Throws `kernel_format` naming what is wrong. An ELF file is passed through. */
export function extractVmlinux(image: Buffer): Buffer {
  const vmlinux = isElf(image) ? image : decompressPayload(findPayload(image));
  if (!isElf(vmlinux)) throw bad('its payload is not a 64-bit ELF file');
  if (!hasPvhNote(vmlinux)) throw bad('it has no PVH entry point (CONFIG_PVH)');
  return vmlinux;
}

function findPayload(image: Buffer): Buffer {
  const isBzImage =
    image.length > 0x250 && image.toString('latin1', HEADER_MAGIC_AT, HEADER_MAGIC_AT + 4) === HEADER_MAGIC;
  if (!isBzImage) throw bad('it is neither a bzImage nor an ELF file');
  if (image.readUInt16LE(VERSION_AT) < MIN_VERSION) throw bad('its boot protocol is older than 2.08');
  const setupSectors = image[SETUP_SECTORS_AT] || 4; // 0 means 4, says the protocol
  const start = (setupSectors + 1) * SECTOR_BYTES + image.readUInt32LE(PAYLOAD_OFFSET_AT);
  const end = start + image.readUInt32LE(PAYLOAD_LENGTH_AT);
  if (end > image.length || end - start < 8) throw bad('its payload lies outside the file');
  return image.subarray(start, end);
}

function decompressPayload(payload: Buffer): Buffer {
  if (isElf(payload)) return payload;
  const body = payload.subarray(0, payload.length - SIZE_TRAILER_BYTES);
  const magic = payload.readUInt32LE(0);
  try {
    if (magic === LZ4_LEGACY_MAGIC) return decodeTwice(body);
    if ((magic & 0xffff) === 0x8b1f) return gunzipSync(payload);
    if (magic === 0xfd2fb528) return zstdDecompressSync(body);
  } catch (cause) {
    throw new BuilderError(
      'kernel_format',
      'the kernel image cannot be used: its payload does not decompress',
      { cause },
    );
  }
  if (payload.toString('latin1', 1, 5) === '7zXZ') return decompressXz(body);
  throw bad(`its payload is compressed in an unknown way (starts with ${payload.toString('hex', 0, 6)})`);
}

/**
 * The format has no checksum, and a kernel that is wrong in a few bytes resets its machine without a word. One of some twenty
 * results on a busy machine was wrong within an overlapping match, for a reason that was not found.
 */
function decodeTwice(body: Buffer): Buffer {
  const content = decodeLz4Legacy(body);
  if (!content.equals(decodeLz4Legacy(body))) throw bad('its payload gave two different results; try again');
  return content;
}

/** The one format Node cannot read by itself; xz is part of every Debian. */
export function decompressXz(body: Buffer): Buffer {
  const result = spawnSync('xz', ['-dc', '--single-stream'], { input: body, maxBuffer: MAX_KERNEL_BYTES });
  if (result.status !== 0) throw bad('xz cannot decompress its payload');
  return result.stdout;
}

function bad(what: string): BuilderError {
  return new BuilderError('kernel_format', `the kernel image cannot be used: ${what}`);
}
