// The daemon's certificate: read from its files, and again when they change or somebody says so. Who is connected stays
// so.
import { readFileSync, statSync } from 'node:fs';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import type { Logger } from 'pino';
import { AppError, toError } from '../../lib/errors.ts';

export type CertificateFiles = {
  readonly certPath: string;
  readonly keyPath: string;
  /** Whose certificates clients must have; absent: none are asked for. */
  readonly clientCaPath?: string;
};

/** Files are replaced by renames, by links and in place, one after the other: looking at them finds all of that. */
const LOOK_MS = 2000;

/** ECDHE with an AEAD: what every client of this decade has, and nothing that reads old traffic with a stolen key. */
const CIPHERS = [
  ...['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'],
  ...['ECDSA', 'RSA'].flatMap((kind) =>
    ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].map(
      (cipher) => `ECDHE-${kind}-${cipher}`,
    ),
  ),
].join(':');

export class Certificate {
  readonly #files: CertificateFiles;
  readonly #log: Logger;
  readonly #lookMs: number;
  #timer: NodeJS.Timeout | undefined;
  #seen: string;
  #apply: (options: SecureContextOptions) => void = () => undefined;
  options: SecureContextOptions;

  /** AppError internal when it cannot be used. */
  constructor(files: CertificateFiles, log: Logger, lookMs = LOOK_MS) {
    this.#files = files;
    this.#log = log;
    this.#lookMs = lookMs;
    this.#seen = this.#look();
    this.options = this.#read();
    if ((statSync(files.keyPath).mode & 0o077) !== 0)
      log.warn(
        `other users of this host may read ${files.keyPath}, the key of the certificate; chmod 600 it`,
      );
  }

  get asksClients(): boolean {
    return this.#files.clientCaPath !== undefined;
  }

  /** `apply` gets the next ones, when they come. */
  watch(apply: (options: SecureContextOptions) => void): void {
    this.#apply = apply;
    this.#timer = setInterval(() => {
      if (this.#look() !== this.#seen) this.reload();
    }, this.#lookMs).unref();
  }

  /** Keeps the one in use when the files make no sense, which may be half replaced. */
  reload(): void {
    this.#seen = this.#look();
    try {
      this.options = this.#read();
      this.#apply(this.options);
      this.#log.info({ certificate: this.#files.certPath }, 'certificate read anew');
    } catch (error) {
      this.#log.error(`${toError(error).message}; the one in use stays`);
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #read(): SecureContextOptions {
    const { certPath, keyPath, clientCaPath } = this.#files;
    try {
      const options: SecureContextOptions = {
        cert: readFileSync(certPath),
        key: readFileSync(keyPath),
        ...(clientCaPath !== undefined && { ca: readFileSync(clientCaPath) }),
        minVersion: 'TLSv1.2',
        ciphers: CIPHERS,
      };
      createSecureContext(options);
      return options;
    } catch (cause) {
      const reason = toError(cause).message;
      throw new AppError(
        'internal',
        `the certificate ${certPath} with the key ${keyPath} cannot be used: ${reason}`,
        {
          stage: 'certificate',
          cause,
        },
      );
    }
  }

  /** What changes when a file does. */
  #look(): string {
    const { certPath, keyPath, clientCaPath } = this.#files;
    return [certPath, keyPath, ...(clientCaPath === undefined ? [] : [clientCaPath])]
      .map((path) => {
        const found = statSync(path, { throwIfNoEntry: false });
        return found === undefined ? '' : [found.dev, found.ino, found.size, found.mtimeMs].join();
      })
      .join(' ');
  }
}
