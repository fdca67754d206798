// What a command needs of the stream that it belongs to. A detached command has a recorder in its place.
import type { Stream } from '@sandboxd/proto';

export type ExecStream = Pick<Stream, 'setSource' | 'ready' | 'end' | 'consumed' | 'finish' | 'handlers'>;
