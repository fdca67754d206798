// The authority of the stand-in API server: its own certificate, and those that it signs for nodes.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import type { Test } from 'tap';
import { makeAuthority } from '../../http/certificates.ts';

const SHORT = `[ca]
default_ca = own
[own]
database = index.txt
new_certs_dir = .
private_key = ca.key
certificate = ca.pem
rand_serial = yes
default_md = sha256
preserve = yes
unique_subject = no
policy = any
[any]
organizationName = optional
commonName = supplied
`;

export class Signer {
  readonly #dir: string;
  readonly ca: string;
  readonly caPath: string;
  readonly tls: { readonly cert: string; readonly key: string };
  #signed = 0;
  /** Of certificates from now on; undefined: a day. */
  lifetimeS: number | undefined;

  constructor(t: Test) {
    const { dir, caPath, issue } = makeAuthority(t);
    const { certPath, keyPath } = issue('api');
    this.#dir = dir;
    this.caPath = caPath;
    this.ca = readFileSync(caPath, 'utf8');
    this.tls = { cert: readFileSync(certPath, 'utf8'), key: readFileSync(keyPath, 'utf8') };
  }

  /** A certificate in PEM for a request in PEM; openssl checks that it is one. */
  sign(request: string): string {
    const name = `signed-${this.#signed++}`;
    writeFileSync(join(this.#dir, `${name}.csr`), request);
    if (this.lifetimeS !== undefined) {
      this.#signFor(this.lifetimeS, name);
      return readFileSync(join(this.#dir, `${name}.pem`), 'utf8');
    }
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

  /** `openssl x509` knows days only. */
  #signFor(seconds: number, name: string): void {
    writeFileSync(join(this.#dir, 'short.conf'), SHORT);
    writeFileSync(join(this.#dir, 'index.txt'), '');
    const toTime = (atMs: number) => `${new Date(atMs).toISOString().replace(/[-:T]|\.\d+/g, '')}`;
    const [from, until] = [toTime(Date.now()), toTime(Date.now() + seconds * 1000)];
    const dates = ['-startdate', from, '-enddate', until];
    const files = ['-in', `${name}.csr`, '-out', `${name}.pem`];
    this.#openssl('ca', '-batch', '-notext', '-config', 'short.conf', ...dates, ...files);
  }

  /** Such as `O = system:nodes, CN = system:node:h0`. */
  subjectOf(request: string): string {
    writeFileSync(join(this.#dir, 'asked.csr'), request);
    const words = ['req', '-in', 'asked.csr', '-verify', '-noout', '-subject', '-nameopt', 'RFC2253'];
    return this.#openssl(...words)
      .replace(/^subject=/, '')
      .trim();
  }

  /** The name of the client’s certificate, when it is of this authority, and has not ended on an open connection. */
  static userOf(socket: TLSSocket): string | undefined {
    if (!socket.authorized) return undefined;
    const { subject, valid_to: until } = socket.getPeerCertificate();
    const { CN } = subject;
    return typeof CN === 'string' && Date.now() < Date.parse(until) ? CN : undefined;
  }

  #openssl(...words: string[]): string {
    return execFileSync('openssl', words, {
      cwd: this.#dir,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }
}
