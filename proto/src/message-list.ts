// Lists of messages from a guest, in one field of bytes. They are decoded one by one, so a hostile guest cannot make
// the host build more of them than it expects. A repeated field would be decoded whole, with two bytes for each empty
// message.
import './plain-numbers.ts';
import protobuf from 'protobufjs/minimal.js';
import { ProtocolViolation } from './errors.ts';
import {
  type CommandStatus,
  CommandStatusCodec,
  type CommandStatusInput,
  type FileAttribute,
  FileAttributeCodec,
  type FileAttributeInput,
  type FileEntry,
  FileEntryCodec,
  type FileEntryInput,
} from './messages.ts';

type Codec<I> = {
  encode(message: I, writer: protobuf.Writer): protobuf.Writer;
  decode(reader: protobuf.Reader, length: number): unknown;
};

class MessageList<I, T> {
  readonly #codec: Codec<I>;
  readonly #what: string;

  constructor(codec: Codec<I>, what: string) {
    this.#codec = codec;
    this.#what = what;
  }

  encode(messages: readonly I[]): Uint8Array {
    const writer = protobuf.Writer.create();
    for (const message of messages) this.#codec.encode(message, writer.fork()).ldelim();
    return writer.finish();
  }

  /** Throws ProtocolViolation for more than `max`, and for other bytes. */
  decode(bytes: Uint8Array, max: number): T[] {
    const reader = protobuf.Reader.create(bytes);
    const messages: T[] = [];
    while (reader.pos < reader.len) {
      if (messages.length === max) throw new ProtocolViolation(`a list of more than ${max} ${this.#what}`);
      try {
        messages.push(this.#codec.decode(reader, reader.uint32()) as T);
      } catch (cause) {
        throw new ProtocolViolation(`a list of ${this.#what} that cannot be decoded`, { cause });
      }
    }
    return messages;
  }
}

export const FILE_ENTRIES = new MessageList<FileEntryInput, FileEntry>(FileEntryCodec, 'files');
export const FILE_ATTRIBUTES = new MessageList<FileAttributeInput, FileAttribute>(
  FileAttributeCodec,
  'attributes of a file',
);
export const COMMAND_STATUSES = new MessageList<CommandStatusInput, CommandStatus>(
  CommandStatusCodec,
  'commands',
);
