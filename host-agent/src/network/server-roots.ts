// Certificates of the operator that vouch for servers of inspected TLS, as those of a company do.
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { AppError, toError } from '../lib/errors.ts';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** In PEM. AppError invalid_argument for a file without certificates, or with one that is not valid. */
export async function readServerRoots(file: string): Promise<string> {
  try {
    const certificates = (await readFile(file, 'latin1')).match(CERTIFICATE) ?? [];
    if (certificates.length === 0) throw new Error('it has no certificate in PEM');
    for (const each of certificates) new X509Certificate(each);
    return `${certificates.join('\n')}\n`;
  } catch (cause) {
    throw new AppError('invalid_argument', `cannot use --egress-ca-file ${file}: ${toError(cause).message}`, {
      cause,
    });
  }
}
