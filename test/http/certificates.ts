// Certificates for tests, made by openssl.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';

export type Issued = { readonly certPath: string; readonly keyPath: string };

export type Authority = {
  readonly dir: string;
  /** What clients trust. */
  readonly caPath: string;
  /** A certificate for those hosts, by default loopback's, or for a client of that name; of no days it has expired. */
  issue(name: string, hosts?: string, days?: number): Issued;
};

export function makeAuthority(t: Test): Authority {
  const dir = mkdtempSync(join(tmpdir(), 'tls-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const openssl = (...words: string[]) =>
    execFileSync('openssl', words, { cwd: dir, stdio: ['ignore', 'pipe', 'pipe'] });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  openssl(
    'req',
    '-x509',
    ...newKey,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-days',
    '2',
    '-subj',
    '/CN=tests',
  );
  return {
    dir,
    caPath: join(dir, 'ca.pem'),
    issue: (name, hosts = 'DNS:localhost,IP:127.0.0.1', days = 2) => {
      const names = `subjectAltName=${hosts}`;
      openssl(
        'req',
        ...newKey,
        '-keyout',
        `${name}.key`,
        '-out',
        `${name}.csr`,
        '-subj',
        `/CN=${name}`,
        '-addext',
        names,
      );
      const sign = [
        '-CA',
        'ca.pem',
        '-CAkey',
        'ca.key',
        '-CAcreateserial',
        '-days',
        String(days),
        '-copy_extensions',
        'copy',
      ];
      openssl('x509', '-req', '-in', `${name}.csr`, ...sign, '-out', `${name}.pem`);
      return { certPath: join(dir, `${name}.pem`), keyPath: join(dir, `${name}.key`) };
    },
  };
}
