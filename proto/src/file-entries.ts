// The entries of a list of files, in one field of bytes. They are decoded one by one, so a hostile guest cannot make
// the host build more of them than were asked for.
import './plain-numbers.ts';
import protobuf from 'protobufjs/minimal.js';
import { ProtocolViolation } from './errors.ts';
import { type FileEntry, FileEntryCodec, type FileEntryInput } from './messages.ts';

export function encodeFileEntries(entries: readonly FileEntryInput[]): Uint8Array {
  const writer = protobuf.Writer.create();
  for (const entry of entries) FileEntryCodec.encode(entry, writer.fork()).ldelim();
  return writer.finish();
}

/** Throws ProtocolViolation for more than `max`, and for other bytes. */
export function decodeFileEntries(bytes: Uint8Array, max: number): FileEntry[] {
  const reader = protobuf.Reader.create(bytes);
  const entries: FileEntry[] = [];
  while (reader.pos < reader.len) {
    if (entries.length === max) throw new ProtocolViolation(`a list of more than ${max} files`);
    try {
      entries.push(FileEntryCodec.decode(reader, reader.uint32()) as unknown as FileEntry);
    } catch (cause) {
      throw new ProtocolViolation('a list of files that cannot be decoded', { cause });
    }
  }
  return entries;
}
