// What the guest of a sandbox may reach: shown, changed while it runs, and explained.
import type { NetworkRule } from '@sandboxd/api';
import type { RequestedNetwork, RequestedSecret } from '../../keys/index.ts';
import type { ChangedNetwork, NetworkChange, NetworkState } from '../../sandboxes/network-types.ts';
import type { BoundSecretInfo } from '../../sandboxes/secrets.ts';
import type { BindingChanges } from '../../secrets/index.ts';
import type { HttpContext } from '../context.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

/** Maximum number of allowlist entries, rules and published ports in an audit record. */
export const MAX_AUDITED_ENTRIES = 50;

export function networkHandlers({ sandboxes: host, presets }: HttpServices) {
  const change = async (c: HttpContext, id: string, requested: NetworkChange) => {
    const { allowlist, rules, presets: names, log, secrets, ifGeneration } = requested;
    const audit = c.get('audit');
    audit.effective = {
      ...(allowlist !== undefined && { allowlist: allowlist.slice(0, MAX_AUDITED_ENTRIES) }),
      ...(rules !== undefined && { rules: rules.length }),
      ...(names !== undefined && { presets: names }),
      ...(log !== undefined && { log }),
      ...(secrets !== undefined && toAuditedChanges(secrets)),
      ...(ifGeneration !== undefined && { ifGeneration }),
    };
    const changed = await host.as(c.get('principal')).get(id).changeNetwork(requested);
    const { generation, closed } = changed;
    audit.effective = {
      hosts: changed.allowlist.length,
      allowlist: changed.allowlist.slice(0, MAX_AUDITED_ENTRIES),
      ...toAuditedNetwork(changed),
      ...toAuditedSecrets(changed.secrets),
      generation,
      closed,
    };
    return toChangedBody(changed);
  };
  return {
    getNetwork: ({ params: { id } }, c) => toPolicyBody(host.as(c.get('principal')).get(id).network()),

    updateNetwork: ({ params: { id }, body }, c) => {
      const { allowlist, rules, presets: names, log, secrets, if_generation: ifGeneration } = body;
      return change(c, id, { allowlist, rules, presets: names, log, secrets, ifGeneration });
    },

    replaceNetwork: ({ params: { id }, body }, c) => {
      const { allowlist, rules, presets: names, log, secrets, if_generation: ifGeneration } = body;
      const lists = { allowlist, rules, presets: names, log, secrets };
      const replacesSecrets = secrets && { replacesSecrets: true as const };
      return change(c, id, { ...lists, ...replacesSecrets, ifGeneration });
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
      const own = host.as(c.get('principal'));
      const usable = presets.list().filter((preset) => own.mayUse({ allowlist: [], presets: [preset] }));
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
  secrets,
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
    secrets: secrets.map(toBoundBody),
    gateway,
    guest_ip: guestIp,
    ...(ca && { ca: { ...ca } }),
  };
}

/** Names and hosts; a change may have values. */
export function toAuditedSecrets(secrets: readonly RequestedSecret[] = []) {
  const audited = secrets.slice(0, MAX_AUDITED_ENTRIES);
  return secrets.length === 0
    ? {}
    : { secrets: audited.map(({ name, hosts, use }) => ({ name, hosts, use })) };
}

/** Without `use`, which may be a value in the wrong field until it was found. */
function toAuditedChanges(changes: BindingChanges) {
  const entries = Object.entries(changes).slice(0, MAX_AUDITED_ENTRIES);
  return { secrets: entries.map(([name, each]) => ({ name, hosts: each?.hosts })) };
}

function toBoundBody({ name, use, hosts, ports, forms, inject, env, plainHttp, hasValue }: BoundSecretInfo) {
  return {
    name,
    ...(use !== undefined && { use }),
    hosts: [...hosts],
    ...(ports && { ports: [...ports] }),
    ...(inject ? { inject } : { in: [...forms] }),
    ...(env !== undefined && { env }),
    ...(plainHttp && { plain_http: plainHttp }),
    has_value: hasValue,
  };
}

function toChangedBody({ closed, ...state }: ChangedNetwork) {
  return { ...toPolicyBody(state), closed };
}
