// A kernel's image → the uncompressed kernel that VMMs start without a boot loader: for x86-64 the ELF file in its
// bzImage, which must have a PVH entry point; for arm64 the Image itself.
import { spawnSync } from 'node:child_process';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import type { Architecture } from '@sandboxd/proto';
import { BuilderError } from '../errors.ts';
import { plainEnvironment } from '../lib/command.ts';
import { hasPvhNote, isElf } from './elf.ts';

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
/** Linux appends the uncompressed size to payloads whose format does not contain it. */
const SIZE_TRAILER_BYTES = 4;
const MAX_KERNEL_BYTES = 512 << 20;

// Documentation/arm64/booting.rst.
const ARM64_MAGIC_AT = 0x38;
const ARM64_MAGIC = 'ARM\x64';
const GZIP_MAGIC = 0x8b1f;

/** Throws `kernel_format` with the reason. An ELF file and an Image for arm64 are returned unchanged. */
export function extractVmlinux(file: Buffer, { name, title }: Pick<Architecture, 'name' | 'title'>): Buffer {
  const image = startsAsGzip(file) ? gunzip(file) : file;
  if (isArm64Image(image) !== (name === 'arm64')) throw bad(`it is not one for ${title}`);
  if (name === 'arm64') return image;
  const vmlinux = isElf(image) ? image : decompressPayload(findPayload(image));
  if (!isElf(vmlinux)) throw bad('its payload is not a 64-bit ELF file');
  if (!hasPvhNote(vmlinux)) throw bad('it has no PVH entry point (CONFIG_PVH)');
  return vmlinux;
}

function isArm64Image(image: Buffer): boolean {
  return image.toString('latin1', ARM64_MAGIC_AT, ARM64_MAGIC_AT + 4) === ARM64_MAGIC;
}

function startsAsGzip(file: Buffer): boolean {
  return file.length > 2 && file.readUInt16LE(0) === GZIP_MAGIC;
}

function gunzip(file: Buffer): Buffer {
  try {
    return gunzipSync(file, { maxOutputLength: MAX_KERNEL_BYTES });
  } catch (cause) {
    throw new BuilderError('kernel_format', 'the kernel image cannot be used: it does not decompress', {
      cause,
    });
  }
}

function findPayload(image: Buffer): Buffer {
  const isBzImage =
    image.length > 0x250 && image.toString('latin1', HEADER_MAGIC_AT, HEADER_MAGIC_AT + 4) === HEADER_MAGIC;
  if (!isBzImage) throw bad('it is neither a bzImage nor an ELF file');
  if (image.readUInt16LE(VERSION_AT) < MIN_VERSION) throw bad('its boot protocol is older than 2.08');
  const setupSectors = image[SETUP_SECTORS_AT] || 4; // the boot protocol defines 0 as 4
  const start = (setupSectors + 1) * SECTOR_BYTES + image.readUInt32LE(PAYLOAD_OFFSET_AT);
  const end = start + image.readUInt32LE(PAYLOAD_LENGTH_AT);
  if (end > image.length || end - start < 8) throw bad('its payload lies outside the file');
  return image.subarray(start, end);
}

const LZ4_LEGACY_MAGIC = 0x184c2102;

function decompressPayload(payload: Buffer): Buffer {
  if (isElf(payload)) return payload;
  const body = payload.subarray(0, payload.length - SIZE_TRAILER_BYTES);
  const magic = payload.readUInt32LE(0);
  if (magic === LZ4_LEGACY_MAGIC) return checkSize(decompressBy('lz4', ['-dcq'], body), payload);
  if (payload.toString('latin1', 1, 5) === '7zXZ') return checkSize(decompressXz(body), payload);
  try {
    if ((magic & 0xffff) === GZIP_MAGIC) return gunzipSync(payload);
    if (magic === 0xfd2fb528) return checkSize(zstdDecompressSync(body), payload);
  } catch (cause) {
    if (cause instanceof BuilderError) throw cause;
    throw new BuilderError(
      'kernel_format',
      'the kernel image cannot be used: its payload does not decompress',
      { cause },
    );
  }
  throw bad(`its payload is compressed in an unknown way (starts with ${payload.toString('hex', 0, 6)})`);
}

/** Compares the content's size with the size that Linux appended. */
function checkSize(content: Buffer, payload: Buffer): Buffer {
  const sizeBytes = payload.readUInt32LE(payload.length - SIZE_TRAILER_BYTES);
  if (content.length === sizeBytes) return content;
  throw bad(`its payload gave ${content.length} bytes instead of ${sizeBytes}`);
}

export function decompressXz(body: Buffer): Buffer {
  return decompressBy('xz', ['-dc', '--single-stream'], body);
}

/** Decompresses with an external program, for the formats that Node does not support. */
function decompressBy(program: string, args: readonly string[], body: Buffer): Buffer {
  const { status, stdout, error } = spawnSync(program, args, {
    input: body,
    maxBuffer: MAX_KERNEL_BYTES,
    env: plainEnvironment(),
  });
  if (status === 0) return stdout;
  if (error !== undefined && 'code' in error && error.code === 'ENOENT')
    throw new BuilderError('tool_missing', `the program ${program} was not found; install it`);
  throw bad(`${program} cannot decompress its payload`);
}

function bad(what: string): BuilderError {
  return new BuilderError('kernel_format', `the kernel image cannot be used: ${what}`);
}
