// The TLS certificate of the daemon. Reloads it when its files change or on request. Open connections are unaffected.
import { readFileSync, statSync } from 'node:fs';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import type { Logger } from 'pino';
import { AppError, toError } from '../../lib/errors.ts';

type CertificateFiles = {
  readonly certPath: string;
  readonly keyPath: string;
  /** The CA that must have signed the certificates of clients. Absent: clients need no certificate. */
  readonly clientCaPath?: string;
};

/** Polling finds every kind of replacement: by rename, by symbolic link and in place. */
const POLL_MS = 2000;

/** Only ECDHE with an AEAD: every current client supports them, and they provide forward secrecy. */
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
  readonly #pollMs: number;
  #timer: NodeJS.Timeout | undefined;
  #fingerprint: string;
  #apply: (options: SecureContextOptions) => void = () => undefined;
  options: SecureContextOptions;

  /** AppError internal if the certificate is unusable. */
  constructor(files: CertificateFiles, log: Logger, pollMs = POLL_MS) {
    this.#files = files;
    this.#log = log;
    this.#pollMs = pollMs;
    this.#fingerprint = this.#readFingerprint();
    this.options = this.#read();
    if ((statSync(files.keyPath).mode & 0o077) !== 0)
      log.warn(
        `other users of this host may read ${files.keyPath}, the key of the certificate; chmod 600 it`,
      );
  }

  get asksClients(): boolean {
    return this.#files.clientCaPath !== undefined;
  }

  /** Starts polling. `apply` gets the options of each new certificate. */
  watch(apply: (options: SecureContextOptions) => void): void {
    this.#apply = apply;
    this.#timer = setInterval(() => {
      if (this.#readFingerprint() !== this.#fingerprint) this.reload();
    }, this.#pollMs).unref();
  }

  /** Keeps the current certificate if the files are invalid, for example half replaced. */
  reload(): void {
    this.#fingerprint = this.#readFingerprint();
    try {
      this.options = this.#read();
      this.#apply(this.options);
      this.#log.info({ certificate: this.#files.certPath }, 'certificate reloaded');
    } catch (error) {
      this.#log.error(`${toError(error).message}; keeping the current certificate`);
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

  /** Changes whenever one of the files changes. */
  #readFingerprint(): string {
    const { certPath, keyPath, clientCaPath } = this.#files;
    return [certPath, keyPath, ...(clientCaPath === undefined ? [] : [clientCaPath])]
      .map((path) => {
        const found = statSync(path, { throwIfNoEntry: false });
        return found === undefined ? '' : [found.dev, found.ino, found.size, found.mtimeMs].join();
      })
      .join(' ');
  }
}
