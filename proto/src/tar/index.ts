// Reading of tar archives, which the guest unpacks and the host makes images of.
export type { MemberAttributes } from './attributes.ts';
export { BLOCK_BYTES, paddingAfter, showName, type TarEntry, TarError } from './entry.ts';
export { TarReader, type TarSink } from './reader.ts';
