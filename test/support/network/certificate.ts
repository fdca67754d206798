// A certificate for servers of tests.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** A self-signed certificate; guests do not check it. */
export function makeCertificate(): { key: string; cert: string } {
  const dir = mkdtempSync('/tmp/cert-');
  try {
    const [key, cert] = [join(dir, 'key'), join(dir, 'cert')];
    const names = ['-subj', '/CN=ok.test', '-days', '2', '-keyout', key, '-out', cert];
    execFileSync(
      'openssl',
      ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', ...names],
      {
        stdio: 'ignore',
      },
    );
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
  } finally {
    rmSync(dir, { recursive: true });
  }
}
