// What a sandbox may reach: allowlist, rules and presets, and the secrets that its guest can use.
import type { NetworkPolicy } from '@sandboxd/client';
import { ActionButton } from '../../parts/button.tsx';
import { toVisible } from '../../parts/format.ts';
import { attempt } from '../../parts/notices.tsx';
import { useClient } from '../../session/use-session.ts';
import { describeRule, describeSecret } from './rules.ts';

type PolicyProps = { readonly policy: NetworkPolicy; readonly id: string; readonly onChanged: () => void };

export function Policy({ policy, id, onChanged }: PolicyProps) {
  const { network } = useClient().sandboxes.get(id);
  const remove = async (changes: Parameters<typeof network.update>[0]): Promise<void> => {
    await attempt(() => network.update({ ...changes, if_generation: policy.generation }));
    onChanged();
  };
  const { allowlist, rules, presets, secrets, ca } = policy;
  return (
    <section class="panel" aria-labelledby="rules">
      <h2 id="rules">It may reach</h2>
      {allowlist.length + rules.length + presets.length === 0 && <p class="faint">Nothing</p>}
      <ul class="lines">
        {allowlist.map((host) => (
          <li key={host}>
            <code>{toVisible(host)}</code>
            <span class="faint">all ports</span>
            <ActionButton
              kind="quiet"
              needs="network"
              label={`Remove ${toVisible(host)}`}
              onClick={() => remove({ allowlist: allowlist.filter((each) => each !== host) })}
            >
              ×
            </ActionButton>
          </li>
        ))}
        {rules.map((rule, at) => (
          <li key={`${at} ${describeRule(rule)}`}>
            <code>{toVisible(describeRule(rule))}</code>
            <ActionButton
              kind="quiet"
              needs="network"
              label={`Remove ${toVisible(describeRule(rule))}`}
              onClick={() => remove({ rules: rules.filter((_, index) => index !== at) })}
            >
              ×
            </ActionButton>
          </li>
        ))}
        {presets.map((preset) => (
          <li key={preset.name}>
            <span class="tag">preset</span> <code>{toVisible(preset.name)}</code>
            <span class="faint">{preset.rules.map(describeRule).map(toVisible).join(', ')}</span>
          </li>
        ))}
        {secrets.map((secret) => (
          <li key={secret.name}>
            <span class="tag">secret</span> <code>{toVisible(secret.name)}</code>
            <span class="faint">{toVisible(describeSecret(secret))}</span>
            {!secret.has_value && <span class="tag tag-bad">no value</span>}
          </li>
        ))}
      </ul>
      <p class="hint">
        Guest <code>{policy.guest_ip}</code>, gateway <code>{policy.gateway}</code>, policy{' '}
        {policy.generation}, log of {policy.log === 'off' ? 'nothing' : policy.log}.
        {ca !== undefined && (
          <>
            {' '}
            Its certificate authority: <code>{ca.fingerprint}</code>
          </>
        )}
      </p>
    </section>
  );
}
