// The format of an exported snapshot: one zstd frame that contains
//
//   the magic bytes, u32 length and JSON of the manifest;
//   for each part of the manifest, in order: chunks (u64 offset, u32 length, bytes), an empty chunk, their SHA-256;
//   SHA-256 of everything before;
//
// followed by a skippable zstd frame, which marks the end of the stream.
import { z } from 'zod';
import { AppError } from '../../../lib/errors.ts';
import { aboutSchema } from '../../snapshot-about.ts';
import { manifestSchema } from '../manifest.ts';

export const MAGIC = Buffer.from('SBXSNAP1');
/** A skippable zstd frame: its magic number, the length of its content, its content. */
export const END_MARK = Buffer.from('502a4d1808000000534258454e443031', 'hex');
export const ARCHIVE_FORMAT = 1;
/** Allowlist, labels and variables take most of it. */
export const MAX_MANIFEST_BYTES = 2 ** 20;
export const CHUNK_BYTES = 1 << 20;
export const CHUNK_HEADER_BYTES = 12;
export const DIGEST_BYTES = 32;
/** Device state takes some 200 KiB. */
export const MAX_STATE_BYTES = 64 * 2 ** 20;
/** Memory files may have a header and a rounded size. */
export const MEMORY_SLACK_BYTES = 16 * 2 ** 20;

const size = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const name = z.string().regex(/^[a-z][a-z0-9.-]{0,31}$/);
const { compatibility, kernelDigest, needsResync, options } = manifestSchema.shape;

/** Parts in their order in the stream. */
export const PARTS = ['memory', 'state', 'disk'] as const;
export type Part = (typeof PARTS)[number];
const part = z.strictObject({
  name,
  sizeBytes: size,
  /** Upper bound of the bytes in the stream; the rest of the file is zeros. */
  contentBytes: size,
});

export const archiveManifestSchema = z.strictObject({
  formatVersion: z.literal(ARCHIVE_FORMAT),
  sourceId: z.string().regex(/^sbx_[0-9a-v]{13}$/),
  takenAtMs: size,
  compatibility,
  kernelDigest,
  needsResync,
  /** Paths of the exporting host are omitted. */
  options: options.extend({
    /** Here, because older daemons ignore further fields of the options only. */
    about: aboutSchema.optional(),
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
  return new AppError('invalid_argument', `the archive is not a snapshot that can be imported: ${what}`);
}
