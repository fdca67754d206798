// What the guest of a sandbox may reach: shown, changed while it runs, and explained.
import type { NetworkRule } from '@sandboxd/api';
import { checkNetwork, policyOf, type RequestedNetwork } from '../../keys/index.ts';
import type { ChangedNetwork, NetworkChange, NetworkState } from '../../sandboxes/network-types.ts';
import type { HttpContext } from '../context.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

/** Maximum number of allowlist entries, rules and published ports in an audit record. */
export const MAX_AUDITED_ENTRIES = 50;

export function networkHandlers({ sandboxes: host, presets }: HttpServices) {
  const change = async (c: HttpContext, id: string, requested: NetworkChange) => {
    const { allowlist, rules, presets: names, log, ifGeneration } = requested;
    const audit = c.get('audit');
    audit.effective = {
      ...(allowlist !== undefined && { allowlist: allowlist.slice(0, MAX_AUDITED_ENTRIES) }),
      ...(rules !== undefined && { rules: rules.length }),
      ...(names !== undefined && { presets: names }),
      ...(log !== undefined && { log }),
      ...(ifGeneration !== undefined && { ifGeneration }),
    };
    const changed = await host.as(c.get('principal')).get(id).changeNetwork(requested);
    const { generation, closed } = changed;
    audit.effective = {
      hosts: changed.allowlist.length,
      allowlist: changed.allowlist.slice(0, MAX_AUDITED_ENTRIES),
      ...toAuditedNetwork(changed),
      generation,
      closed,
    };
    return toChangedBody(changed);
  };
  return {
    getNetwork: ({ params: { id } }, c) => toPolicyBody(host.as(c.get('principal')).get(id).network()),

    updateNetwork: ({ params: { id }, body }, c) => {
      const { allowlist, rules, presets: names, log, if_generation: ifGeneration } = body;
      return change(c, id, { allowlist, rules, presets: names, log, ifGeneration });
    },

    replaceNetwork: ({ params: { id }, body }, c) => {
      const { allowlist, rules, presets: names, log, if_generation: ifGeneration } = body;
      return change(c, id, { allowlist, rules, presets: names, log, ifGeneration });
    },

    checkNetwork: ({ params: { id }, body }, c) => {
      const { host: target, port, protocol, method, path } = body;
      const isRequest = method !== undefined || path !== undefined;
      const request = isRequest ? { method: method ?? 'GET', path: path ?? '/' } : undefined;
      const sandbox = host.as(c.get('principal')).get(id);
      const { isAllowed, by, reason, generation } = sandbox.checkNetwork(target, { protocol, port, request });
      const verdict: 'allowed' | 'denied' = isAllowed ? 'allowed' : 'denied';
      const what = by !== undefined && 'rule' in by ? { rule: toRuleBody(by.rule) } : by;
      return { verdict, reason, generation, ...what };
    },

    listNetworkPresets: (_, c) => {
      const policy = policyOf(c.get('principal')) ?? {};
      const usable = presets
        .list()
        .filter(
          ({ name, rules }) =>
            checkNetwork({ allowlist: [], presets: [{ name, rules }] }, policy).length === 0,
        );
      return {
        presets: usable.map(({ name, description, rules }) => ({
          name,
          ...(description !== undefined && { description }),
          rules: rules.map(toRuleBody),
        })),
      };
    },
  } satisfies Partial<Handlers>;
}

export function toAuditedNetwork({ rules = [], presets = [] }: Pick<RequestedNetwork, 'rules' | 'presets'>) {
  return {
    ...(rules.length > 0 && {
      rules: rules.length,
      rule: rules.slice(0, MAX_AUDITED_ENTRIES).map(toRuleBody),
    }),
    ...(presets.length > 0 && { presets: presets.map(({ name }) => name) }),
  };
}

export function toRuleBody(rule: NetworkRule) {
  return { ...rule, ports: [...rule.ports] };
}

function toPolicyBody({
  generation,
  allowlist,
  rules = [],
  presets = [],
  log,
  guestIp,
  gateway,
  ca,
}: NetworkState) {
  return {
    generation,
    allowlist: [...allowlist],
    rules: rules.map(toRuleBody),
    presets: presets.map((preset) => ({ name: preset.name, rules: preset.rules.map(toRuleBody) })),
    log: log ?? 'all',
    gateway,
    guest_ip: guestIp,
    ...(ca && { ca: { ...ca } }),
  };
}

function toChangedBody({ closed, ...state }: ChangedNetwork) {
  return { ...toPolicyBody(state), closed };
}
