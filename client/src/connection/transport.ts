// What carries requests: Node's own HTTP, or what a browser has.

export type WireRequest = {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | undefined;
  readonly signal: AbortSignal;
};

/** Bytes as they come. Leaving a loop over them ends the connection. */
export type Bytes = AsyncIterable<Uint8Array>;

export type WireAnswer = {
  readonly status: number;
  header(name: string): string | undefined;
  readonly body: Bytes;
};

/** A connection that carries exec frames both ways. */
export interface Duplex {
  readonly output: Bytes;
  /** What the daemon's log calls the request; a browser is not told. */
  readonly requestId?: string | undefined;
  /** Resolves when there is room for more. */
  write(bytes: Uint8Array): Promise<void>;
  /** Leaves: the command is killed. */
  close(): void;
}

export interface Transport {
  /** Rejects with ConnectionError, or with the signal's reason. */
  send(request: WireRequest): Promise<WireAnswer>;
  /** An interactive exec, whose request is `body`; an answer where it was refused. */
  open(request: WireRequest & { readonly body: string }): Promise<Duplex | WireAnswer>;
}

export type TransportOptions = {
  /** `http://host:port`, `https://host:port`, or `unix:/path/of/a.sock` (not in browsers). */
  readonly host: string;
  readonly apiKey?: string | undefined;
  /** Certificates to trust instead of the system's, PEM (not in browsers). */
  readonly ca?: string | undefined;
};

/** What differs between Node and a browser. */
export type Platform = {
  readonly name: 'node' | 'browser';
  createTransport(options: TransportOptions): Transport;
  /** Where the daemon is when nobody says so. */
  defaultHost(): string;
  defaultApiKey(): string | undefined;
  /** PEM. Throws when its file cannot be read. */
  defaultCa(): string | undefined;
  /** A tar stream of a directory's contents. */
  packDirectory(path: string): Bytes;
  unpackDirectory(archive: Bytes, path: string): Promise<void>;
};
