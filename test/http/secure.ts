// The server as others than its own host reach it: TLS with a certificate of a private authority, and keys.
import { pino } from 'pino';
import type { Test } from 'tap';
import { Certificate } from '../../host-agent/src/http/index.ts';
import { serveCat } from './cat.ts';
import { makeAuthority } from './certificates.ts';
import { openKeyring } from './keyed.ts';

/** `cat` behind it, and one key that may do everything. */
export async function serveSecurely(t: Test, changes: { readonly corsOrigins?: readonly string[] } = {}) {
  const authority = makeAuthority(t);
  const issued = authority.issue('daemon');
  const certificate = new Certificate(issued, pino({ level: 'silent' }), 3_600_000);
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  const served = await serveCat(t, { ...changes, certificate, authenticator: keyring.authenticator });
  return { ...served, authority, issued, keyring, key };
}
