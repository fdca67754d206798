// Whether a policy has connections inspected, for which the guest must trust an authority of the host.
import type { NetworkPolicy } from '../network-policy.ts';

export function needsAuthority({ rules = [], presets = [] }: NetworkPolicy): boolean {
  return [...rules, ...presets.flatMap((preset) => preset.rules)].some(
    (rule) => 'tls' in rule && rule.tls === 'inspect',
  );
}
