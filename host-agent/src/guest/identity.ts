// Parts of an identity that an agent may be too old for, and what it reports of them.
import { type IdentityInput, NETWORK, TRUST, type TrustInput } from '@sandboxd/proto';
import { AppError } from '../lib/errors.ts';

type Can = (capability: string) => boolean;

/** As many places as an agent of ours looks at. */
const MAX_PROBLEMS = 20;
const MAX_PROBLEM_CHARS = 200;

/** AppError unsupported. */
export function assertCanTake({ network, trust }: IdentityInput, can: Can): void {
  if (network && !can(NETWORK)) {
    const what = 'the agent of this root filesystem knows no network; bake the profile again';
    throw new AppError('unsupported', what);
  }
  assertCanTrust(trust, can);
}

/** AppError unsupported. */
export function assertCanTrust(trust: TrustInput | null | undefined, can: Can): void {
  const problem = findTooOld(trust, can);
  if (problem !== undefined) throw new AppError('unsupported', problem);
}

/** Why the agent cannot trust an authority; undefined if it can, or need not. */
export function findTooOld(trust: TrustInput | null | undefined, can: Can): string | undefined {
  if (!trust?.certificate || can(TRUST)) return undefined;
  return 'the agent of this guest is older than inspected TLS; bake the profile again and create another sandbox';
}

/** Where the guest could not add the authority: its own text, without control characters. */
export function problemsOf(
  result: { readonly problems?: readonly string[] | null } | null | undefined,
): string[] {
  return (result?.problems ?? [])
    .slice(0, MAX_PROBLEMS)
    .map((text) => JSON.stringify(text.slice(0, MAX_PROBLEM_CHARS)).slice(1, -1));
}
