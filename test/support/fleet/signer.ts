// The authority of the stand-in API server: its own certificate, and those that it signs for nodes.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import type { Test } from 'tap';
import { makeAuthority } from '../../http/certificates.ts';

export class Signer {
  readonly #dir: string;
  readonly ca: string;
  readonly caPath: string;
  readonly tls: { readonly cert: string; readonly key: string };
  #signed = 0;

  constructor(t: Test) {
    const { dir, caPath, issue } = makeAuthority(t);
    const { certPath, keyPath } = issue('api');
    this.#dir = dir;
    this.caPath = caPath;
    this.ca = readFileSync(caPath, 'utf8');
    this.tls = { cert: readFileSync(certPath, 'utf8'), key: readFileSync(keyPath, 'utf8') };
  }

  /** A certificate in PEM for a request in PEM, for one day; openssl checks that it is one. */
  sign(request: string): string {
    const name = `signed-${this.#signed++}`;
    writeFileSync(join(this.#dir, `${name}.csr`), request);
    const words = [
      '-CA',
      'ca.pem',
      '-CAkey',
      'ca.key',
      '-CAcreateserial',
      '-days',
      '1',
      '-out',
      `${name}.pem`,
    ];
    this.#openssl('x509', '-req', '-in', `${name}.csr`, ...words);
    return readFileSync(join(this.#dir, `${name}.pem`), 'utf8');
  }

  /** Such as `O = system:nodes, CN = system:node:h0`. */
  subjectOf(request: string): string {
    writeFileSync(join(this.#dir, 'asked.csr'), request);
    const words = ['req', '-in', 'asked.csr', '-verify', '-noout', '-subject', '-nameopt', 'RFC2253'];
    return this.#openssl(...words)
      .replace(/^subject=/, '')
      .trim();
  }

  /** The name of the client’s certificate, when it is of this authority. */
  static userOf(socket: TLSSocket): string | undefined {
    const { CN } = socket.authorized ? socket.getPeerCertificate().subject : {};
    return typeof CN === 'string' ? CN : undefined;
  }

  #openssl(...words: string[]): string {
    return execFileSync('openssl', words, {
      cwd: this.#dir,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }
}
