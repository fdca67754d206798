// Rules of E2B's networks: headers that the host adds to requests. Each is a binding of the REST interface, and what a
// sandbox has of them is read from its bindings alone: copies inherit them, and other clients change them.

import { isIPv4 } from 'node:net';
import { checkBody, INTERNET_PRESET, networkReplacement } from '@sandboxd/api';
import { ConflictError } from '@sandboxd/client';
import { E2bError, unsupported } from '../errors.ts';
import type { Requests } from '../rest.ts';
import type { SandboxRecord } from '../sandbox-records.ts';
import type { NetworkBody } from './requests.ts';

/** Names of the bindings that rules become. */
const RULE_SECRET = 'E2B_RULE_';
const RULE_NAME = /^E2B_RULE_\d+$/;
/** Of a secret's value in the REST interface. */
const MIN_SECRET_CHARS = 8;
const PRINTABLE = /^[!-~](?:[ -~]*[!-~])?$/;
/** While other clients change the same network. */
const MAX_TRIES = 5;

type Binding = {
  readonly value: string;
  readonly hosts: readonly string[];
  readonly inject: { readonly header: string };
};
export type RuleBindings = Readonly<Record<string, Binding>>;
/** As the REST interface shows one, or is asked for one. */
type Bound = { readonly hosts: readonly string[]; readonly inject?: { readonly header: string } | undefined };
/** Of one sandbox. */
export type Rules = readonly Bound[];
type Named = Bound & { readonly name: string };

/** Secrets that the guest does not have; undefined: none. E2bError 400, 501. */
export function toSecrets({ rules }: Partial<NetworkBody>): RuleBindings | undefined {
  const found: [string, Binding][] = [];
  for (const [host, entries] of Object.entries(rules ?? {})) {
    const headers = new Map(entries.flatMap(({ transform }) => Object.entries(transform?.headers ?? {})));
    for (const [header, value] of headers) {
      if (value.length < MIN_SECRET_CHARS || !PRINTABLE.test(value))
        throw unsupported(
          `network.rules: a value of the header ${header.slice(0, 80)} that has less than ${MIN_SECRET_CHARS} ` +
            'characters, or others than printable ASCII,',
        );
      found.push([`${RULE_SECRET}${found.length + 1}`, { value, hosts: [host], inject: { header } }]);
    }
  }
  if (found.length === 0) return undefined;
  const secrets = Object.fromEntries(found);
  // Also where there is no network, so that no request has them.
  const checked = checkBody(networkReplacement, { secrets }, false);
  if (!checked.isValid) throw new E2bError(400, checked.problem);
  return secrets;
}

/** What is kept and shown of a network, with the rules that it has. */
export function toShown({ rules: _, ...network }: Partial<NetworkBody>, bound: Rules): object {
  const rules = toShownRules(bound);
  return { ...network, egressProxy: undefined, ...(rules && { rules }) };
}

/** One entry for each host, without values. Undefined: none. */
function toShownRules(bound: Rules): object | undefined {
  const byHost = new Map<string, [string, string][]>();
  for (const { hosts, inject } of bound)
    if (inject !== undefined)
      for (const host of hosts) byHost.set(host, [...(byHost.get(host) ?? []), [inject.header, '***']]);
  if (byHost.size === 0) return undefined;
  const shown = [...byHost].map(([host, headers]) => [
    host,
    [{ transform: { headers: Object.fromEntries(headers) } }],
  ]);
  return Object.fromEntries(shown);
}

export async function readRules(requests: Requests, id: string): Promise<readonly Named[]> {
  const { secrets } = await requests.call('getNetwork', { params: { id } });
  return secrets.filter(isOfRule);
}

/**
 * Replaces the rules, and the targets where they are given. Other bindings stay. Resolves with the bindings of the
 * rules.
 */
export async function changeNetwork(
  requests: Requests,
  id: string,
  wanted: { readonly targets?: Targets; readonly secrets: RuleBindings },
): Promise<readonly Named[]> {
  const params = { id };
  for (let tries = 1; ; tries++) {
    const { generation, secrets } = await requests.call('getNetwork', { params });
    const former = secrets.filter(isOfRule).map(({ name }) => [name, null]);
    const changes = { ...Object.fromEntries(former), ...wanted.secrets };
    const body = {
      ...wanted.targets,
      ...(Object.keys(changes).length > 0 && { secrets: changes }),
      if_generation: generation,
    };
    try {
      const changed = await requests.call('updateNetwork', { params, body });
      return changed.secrets.filter(isOfRule);
    } catch (error) {
      if (!(error instanceof ConflictError) || tries >= MAX_TRIES) throw error;
    }
  }
}

function isOfRule({ name }: Named): boolean {
  return RULE_NAME.test(name);
}

// Networks of E2B's creates as networks of the REST interface. Where theirs allow more than ours can refuse, it is 501.

const EVERYTHING = '0.0.0.0/0';
const ALL_PORTS = ['1-65535'];
/** Of a network that stays where its guest may reach nothing. */
export const NO_TARGETS: Targets = { allowlist: [], rules: [], presets: [] };

type Targets = {
  readonly allowlist: readonly string[];
  readonly rules: readonly {
    readonly cidr: string;
    readonly protocol: 'tcp' | 'udp';
    readonly ports: readonly string[];
  }[];
  readonly presets: readonly string[];
};

/** What the guest may reach; undefined: nothing. E2bError 400, 501. */
export function toTargets(network: Partial<NetworkBody>, allowsInternet: boolean): Targets | undefined {
  const { allowOut = [], denyOut = [] } = network;
  assertKnown(network);
  const isClosed = !allowsInternet || denyOut.includes(EVERYTHING);
  if (!isClosed && denyOut.length > 0)
    throw unsupported('denyOut of single addresses (deny 0.0.0.0/0 and name what to allow in allowOut)');
  if (!isClosed) {
    const name = allowOut.find((entry) => !isRange(entry));
    if (name === undefined) return { allowlist: [], rules: [], presets: [INTERNET_PRESET] };
    throw new E2bError(400, `allowOut with the domain ${name} needs denyOut with ${EVERYTHING}`);
  }
  if (allowOut.length === 0) return undefined;
  if (allowOut.includes(EVERYTHING)) return { allowlist: [], rules: [], presets: [INTERNET_PRESET] };
  const ranges = allowOut.filter(isRange).map((entry) => (entry.includes('/') ? entry : `${entry}/32`));
  return {
    allowlist: allowOut.filter((entry) => !isRange(entry)),
    rules: ranges.flatMap((cidr) =>
      (['tcp', 'udp'] as const).map((protocol) => ({ cidr, protocol, ports: ALL_PORTS })),
    ),
    presets: [],
  };
}

/** Who may use its ports, and what its servers see. */
export function toPortAccess(network: Partial<NetworkBody>): Pick<SandboxRecord, 'ports' | 'masksHost'> {
  return {
    ports: network.allowPublicTraffic === false ? 'token' : 'public',
    masksHost: network.maskRequestHost != null,
  };
}

function assertKnown({ egressProxy, dnsServers, httpsPorts, maskRequestHost }: Partial<NetworkBody>): void {
  if (egressProxy != null) throw unsupported('network.egressProxy');
  if (dnsServers != null && dnsServers.length > 0) throw unsupported('network.dnsServers');
  if (httpsPorts != null && httpsPorts.length > 0) throw unsupported('network.httpsPorts');
  if (maskRequestHost != null && !/^localhost(?::\$\{PORT\})?$/.test(maskRequestHost))
    throw unsupported('network.maskRequestHost other than localhost with the port');
}

function isRange(entry: string): boolean {
  return isIPv4(entry.replace(/\/\d{1,2}$/, ''));
}
