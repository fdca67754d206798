// A snapshot as one stream, for another host: zstd around a magic word, a manifest, and of each file its allocated pieces with a digest.
//
//   magic, u32 length and JSON of the manifest
//   for each part of the manifest, in its order: pieces (u64 offset, u32 length, bytes), a length of 0, SHA-256 of all that
//   SHA-256 of everything before
//
// and behind that frame one that decoders skip, which says that the stream ends there.
import { z } from 'zod';
import { AppError } from '../../../lib/errors.ts';
import { manifestSchema } from '../manifest.ts';

export const MAGIC = Buffer.from('SBXSNAP1');
/** A skippable frame of zstd: its magic word, the length of what follows, and that. */
export const END_MARK = Buffer.from('502a4d1808000000534258454e443031', 'hex');
export const ARCHIVE_FORMAT = 1;
export const MAX_MANIFEST_BYTES = 64 * 1024;
export const PIECE_BYTES = 1 << 20;
export const PIECE_HEADER_BYTES = 12;
export const DIGEST_BYTES = 32;
/** Devices' state is some 200 KiB. */
export const MAX_STATE_BYTES = 64 * 2 ** 20;
/** Memory files may have a header, and round up. */
export const MEMORY_SLACK_BYTES = 16 * 2 ** 20;

const size = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const name = z.string().regex(/^[a-z][a-z0-9.-]{0,31}$/);
const { compatibility, kernelDigest, needsResync, options } = manifestSchema.shape;

/** Parts in the order in which they come. */
export const PARTS = ['memory', 'state', 'disk'] as const;
export type Part = (typeof PARTS)[number];
const part = z.strictObject({
  name,
  sizeBytes: size,
  /** At most; what is left out is zeros. */ contentBytes: size,
});

export const archiveManifestSchema = z.strictObject({
  formatVersion: z.literal(ARCHIVE_FORMAT),
  sourceId: z.string().regex(/^sbx_[0-9a-v]{13}$/),
  takenAtMs: size,
  compatibility,
  kernelDigest,
  needsResync,
  /** Paths of the host that it is from mean nothing on another. */
  options: options.extend({
    rootfs: options.shape.rootfs
      .omit({ rootfsPath: true, agentPath: true })
      .extend({ agent: z.string().optional() }),
    vcpus: z.int().min(1),
    memoryMib: z.int().min(1),
    diskBytes: z.int().min(1),
    timeoutS: z.int().min(0),
  }),
  parts: z.strictObject({ memory: part, state: part, disk: part }),
});

export type ArchiveManifest = z.infer<typeof archiveManifestSchema>;

export function badArchive(what: string): AppError {
  return new AppError('invalid_argument', `the archive is no snapshot that can be imported: ${what}`);
}
