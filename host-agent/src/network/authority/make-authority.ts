// The certificate authority of a sandbox: its guest trusts it, and only for that guest's connections it signs.
import { generateKeyPair } from 'node:crypto';
import { promisify } from 'node:util';
import { AppError } from '../../lib/errors.ts';
import type { NetworkPolicy } from '../network-policy.ts';
import { signAuthority } from './certificate.ts';

/** In PEM. The key is the host's secret; the certificate is the guest's to read. */
export type Authority = { readonly certificate: string; readonly key: string };

const DAY_MS = 24 * 60 * 60 * 1000;
/** Guest clocks may be slow. */
export const BACK_DATED_MS = DAY_MS;
/** Longer than sandboxes and snapshots are kept: no guest gets a second one in its life. */
const LIFETIME_MS = 20 * 365 * DAY_MS;
const MAX_ID_CHARS = 48;

export const makeKeyPair = promisify(generateKeyPair);

/** AppError internal for what is not an id. */
export async function makeAuthority(sandboxId: string): Promise<Authority> {
  // Lower case, as `subjectHash` needs it.
  if (!/^[a-z0-9_-]+$/.test(sandboxId) || sandboxId.length > MAX_ID_CHARS)
    throw new AppError('internal', `no authority for ${JSON.stringify(sandboxId)}: it is not an id`);
  const { privateKey } = await makeKeyPair('ec', { namedCurve: 'P-256' });
  const now = Date.now();
  const certificate = signAuthority(
    {
      commonName: `egress of ${sandboxId}`,
      period: { from: new Date(now - BACK_DATED_MS), until: new Date(now + LIFETIME_MS) },
    },
    privateKey,
  );
  return { certificate, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

/** Whether a policy has connections inspected, for which the guest must trust an authority of the host. */
export function needsAuthority({ rules = [], presets = [] }: NetworkPolicy): boolean {
  return [...rules, ...presets.flatMap((preset) => preset.rules)].some(
    (rule) => 'tls' in rule && rule.tls === 'inspect',
  );
}
