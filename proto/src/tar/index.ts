// Reader of tar archives: the guest extracts them, the host builds images from them.
export type { MemberAttributes } from './attributes.ts';
export { BLOCK_BYTES, paddingAfter, showName, type TarEntry, TarError } from './entry.ts';
export { TarReader, type TarSink } from './reader.ts';
