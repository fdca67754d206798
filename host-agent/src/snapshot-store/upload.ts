// What is sent to the store, and what came of it.
import type { ChangedPages } from './changes.ts';
import type { StoredFile, StoreManifest } from './manifest.ts';
import type { TenantName } from './store-keys.ts';
import type { StoredLimit } from './stored-use.ts';

export type FileBase = {
  readonly path: string;
  readonly stored: StoredFile;
  /** Known already, as of `readChanges`; absent: the file is compared with this copy. */
  readonly changes?: (() => AsyncIterable<ChangedPages>) | undefined;
};

export type ChunkUpload = {
  readonly tenant: TenantName;
  readonly files: readonly {
    readonly part: string;
    readonly path: string;
    /** A copy of what it was, and what was sent of that: only changes are sent, unless its size is another one now. */
    readonly base?: FileBase | undefined;
  }[];
  /** Before each chunk: what is more urgent goes first. */
  readonly giveWay?: ((signal: AbortSignal) => Promise<void>) | undefined;
};

export type SnapshotUpload = ChunkUpload & {
  readonly id: string;
  /** JSON. */
  readonly description: unknown;
  /** Sends all chunks, also those that seem to be there: some are damaged. */
  readonly isAnew?: boolean;
  /** For all chunks of the tenant, of all hosts. Absent: none. */
  readonly limit?: StoredLimit | undefined;
  /** Only in place of a manifest that is there, and stays until then: one that goes meanwhile is not made again. */
  readonly replaces?: boolean;
  /** All chunks are there; what makes it exist follows. */
  readonly beforeManifest?: () => Promise<void>;
};

/** `sent`: what was not in the bucket yet, in bytes as stored. */
export type SentChunks = {
  readonly chunks: number;
  readonly sentChunks: number;
  readonly sentBytes: number;
};

export type UploadResult = SentChunks & { readonly manifest: StoreManifest };
