// Snapshots in an S3 bucket that all hosts share.
export { CHUNK_BYTES } from './chunk.ts';
export type { FileContent } from './download.ts';
export { diskBytesOf, STORE_FORMAT, type StoredFile, type StoreManifest } from './manifest.ts';
export { type OpenedSnapshotStore, openSnapshotStore, type StoreSettings } from './open-store.ts';
export { SnapshotStore } from './snapshot-store.ts';
export type { StoreCollector } from './store-collector.ts';
export type { StoredImages } from './stored-images.ts';
export type { StoredTemplate, StoredTemplates } from './stored-templates.ts';
export type { StoredLimit } from './stored-use.ts';
export type { FileBase, SentChunks, UploadResult } from './upload.ts';
