// Handlers that count the bytes of a stream without consuming them.
import type { Flow, StreamHandlers } from '@sandboxd/proto';

export class Tally implements StreamHandlers {
  bytes = 0;
  data(_flow: Flow, chunk: Buffer): void {
    this.bytes += chunk.length;
  }
}
