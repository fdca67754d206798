// Changes of what the guest of a running sandbox trusts, because its policy begins or ceases to have connections
// inspected. A paused one learns of it when it is resumed.
import { assertCanTrust } from '../guest/identity.ts';
import { firstLine } from '../lib/errors.ts';
import { deadline } from '../lib/wait.ts';
import { needsAuthority } from '../network/authority/index.ts';
import type { NetworkPolicy } from '../network/index.ts';
import type { Authorities, MadeAuthority } from './authorities.ts';
import type { SandboxRecord } from './record.ts';
import { noteUntrusted } from './resources/agent.ts';
import type { Sandbox } from './sandbox.ts';

/** A guest that hangs does not keep its policy from being changed. */
const TRUST_MS = 10_000;

export type TrustDeps = { readonly authorities: Pick<Authorities, 'make' | 'trustOf'> };

/** Undefined if it needs none or has one. AppError unsupported if its agent is too old to trust one. */
export async function makeAuthorityFor(
  { id, record, running }: Sandbox,
  policy: NetworkPolicy,
  authorities: TrustDeps['authorities'],
): Promise<MadeAuthority | undefined> {
  if (!needsAuthority(policy)) return undefined;
  const guest = running?.guest;
  if (guest?.isConnected === true) assertCanTrust({ certificate: 'new' }, guest.can);
  return record.authority === undefined ? await authorities.make(id) : undefined;
}

/** Resolves when its guest trusts what the changed record needs. Never rejects: the policy must hold in any case. */
export async function changeTrust(
  sandbox: Sandbox,
  before: SandboxRecord,
  after: SandboxRecord,
  { authorities }: TrustDeps,
): Promise<void> {
  const { running } = sandbox;
  const trust = authorities.trustOf(after);
  if (running === undefined || trust === undefined) return;
  if (authorities.trustOf(before)?.certificate === trust.certificate) return;
  const { guest } = running;
  try {
    using limit = deadline(TRUST_MS, () => new Error(`the guest did not answer within ${TRUST_MS} ms`));
    noteUntrusted({ sandboxLog: sandbox.log }, await guest.trust(trust, limit.signal));
  } catch (error) {
    sandbox.note(`network: the guest may not trust the certificate authority: ${firstLine(error)}`);
    // What has hung then may answer later.
    const stop = guest.watchConnections(() => {
      stop();
      const current = authorities.trustOf(sandbox.record);
      if (current !== undefined) guest.trust(current).catch(() => undefined);
    });
  }
}
