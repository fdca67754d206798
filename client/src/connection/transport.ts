// The transport interface, implemented for Node and for browsers.
import type { Duplex as NodeDuplex } from 'node:stream';

export type WireRequest = {
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | undefined;
  readonly signal: AbortSignal;
};

/** A stream of bytes. Leaving a loop over it closes the connection. */
export type Bytes = AsyncIterable<Uint8Array>;

export type WireAnswer = {
  readonly status: number;
  header(name: string): string | undefined;
  readonly body: Bytes;
};

/** A bidirectional connection for exec frames. */
export interface Duplex {
  readonly output: Bytes;
  /** The request id in the daemon's log; unknown in browsers. */
  readonly requestId?: string | undefined;
  /** Of an attached command; unknown in browsers, which get it as a frame. */
  readonly commandId?: string | undefined;
  /** Resolves when the connection accepts more data (backpressure). */
  write(bytes: Uint8Array): Promise<void>;
  /** Closes the connection, which kills the command. */
  close(): void;
}

export interface Transport {
  /** Rejects with ConnectionError, or the signal's reason. */
  send(request: WireRequest): Promise<WireAnswer>;
  /** Opens an interactive exec, whose request is `body`; resolves with an answer if it was refused. */
  open(request: WireRequest & { readonly body: string }): Promise<Duplex | WireAnswer>;
  /** Opens a connection for raw bytes; absent in browsers. */
  tunnel?(request: WireRequest): Promise<NodeDuplex | WireAnswer>;
}

export type TransportOptions = {
  /** `http://host:port`, `https://host:port`, or `unix:/path/of/a.sock` (not in browsers). */
  readonly host: string;
  readonly apiKey?: string | undefined;
  /** Trusted CA certificates (PEM) instead of the system's; not in browsers. */
  readonly ca?: string | undefined;
};

/** Functions that differ between Node and browsers. */
export type Platform = {
  readonly name: 'node' | 'browser';
  createTransport(options: TransportOptions): Transport;
  /** The daemon's address when none is given. */
  defaultHost(): string;
  defaultApiKey(): string | undefined;
  /** PEM. Throws when the file cannot be read. */
  defaultCa(): string | undefined;
  /** A tar stream of a directory's contents. */
  packDirectory(path: string): Bytes;
  unpackDirectory(archive: Bytes, path: string): Promise<void>;
};
