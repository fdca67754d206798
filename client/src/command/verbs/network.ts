// `sandbox network`: what a sandbox may reach, changes of it, and explanations.
import { type Input, UsageError } from '@sandboxd/api/command-line';
import type { ChangedNetwork, NetworkPolicy, NetworkRule } from '../../contract.ts';
import { resolveWord } from '../names.ts';
import { showRule, toPortAndProtocol, toReadTargets, toTargets } from '../network-targets.ts';
import type { Session, Verb } from '../verb.ts';

const ACTIONS = ['check', 'presets'] as const;
const LOG_MODES = ['all', 'denied', 'off'] as const;
type LogMode = (typeof LOG_MODES)[number];

export const network: Verb = {
  name: 'network',
  operands: '<sandbox|check|presets> [sandbox] [host] [port]',
  completes: [[...ACTIONS], 'sandbox', []],
  resolvesNames: true,
  summary: 'Show, change and explain what a sandbox may reach',
  details:
    'With --allow, --preset or --none, the sandbox may reach only that from then on, and its other connections are ' +
    'closed; with --add, also what it may reach already. check explains whether a connection may be opened, or a request sent.',
  flags: {
    allow: {
      type: 'string',
      multiple: true,
      placeholder: 'host[:ports]',
      help: 'a host on all ports, or ports of it, such as github.com:22 or dns.example.com:53/udp',
    },
    preset: { type: 'string', multiple: true, placeholder: 'name', help: 'a preset of the operator' },
    none: { type: 'boolean', help: 'nothing at all' },
    add: { type: 'boolean', help: 'keep what the sandbox may reach already' },
    log: {
      type: 'string',
      placeholder: 'which',
      values: LOG_MODES,
      help: 'which records its egress log keeps: all, denied or off',
    },
    method: {
      type: 'string',
      multiple: true,
      placeholder: 'method',
      help: 'with --allow host:443/tls or host:80/http: only these methods; with check: that of a request',
    },
    path: {
      type: 'string',
      multiple: true,
      placeholder: 'path',
      help: 'with --allow: only these paths, such as /repos/**; with check: that of a request',
    },
    'if-generation': { type: 'string', placeholder: 'n', help: 'change nothing if another generation holds' },
  },
  example: 'sandbox network --allow github.com:22 $ID',
  async run(input, session) {
    const [first = '', second, host, port] = input.operands;
    const { client, terminal, signal, isJson } = session;
    if (first === 'presets' && second === undefined) {
      const presets = await client.networkPresets({ signal });
      if (isJson) terminal.printJson({ presets });
      else
        terminal.table(
          ['PRESET', 'RULES', 'DESCRIPTION'],
          presets.map((each) => [each.name, String(each.rules.length), each.description ?? '']),
        );
      return 0;
    }
    if (first === 'check' && second !== undefined) {
      if (host === undefined || port === undefined)
        throw new UsageError(
          'a host and a port are missing: sandbox network check <sandbox> <host> <port[/udp]>',
        );
      const [[method, secondMethod], [path, secondPath]] = [input.texts('method'), input.texts('path')];
      if (secondMethod !== undefined || secondPath !== undefined)
        throw new UsageError('a request has one --method and one --path');
      const request = { ...(method !== undefined && { method }), ...(path !== undefined && { path }) };
      return await check(second, host, port, request, session);
    }
    if (second !== undefined)
      throw new UsageError(`there is no ${JSON.stringify(first)}; known are ${ACTIONS.join(', ')}`);
    const id = await resolveWord('sandbox', first, () => client, signal);
    const { network: target } = client.sandboxes.get(id);
    const policy = isChange(input) ? await change(id, input, session) : await target.get({ signal });
    if (isJson) terminal.printJson(policy);
    else terminal.table(['TARGET', 'FROM'], toRows(policy));
    return 0;
  },
};

async function check(
  word: string,
  host: string,
  portWord: string,
  request: { readonly method?: string; readonly path?: string },
  session: Session,
): Promise<number> {
  const { client, terminal, signal, isJson } = session;
  const { port, protocol } = toPortAndProtocol(portWord);
  const id = await resolveWord('sandbox', word, () => client, signal);
  const found = await client.sandboxes.get(id).network.check(host, port, { protocol, ...request, signal });
  const { verdict, reason, rule, allowlist, preset } = found;
  const by = rule === undefined ? (allowlist ?? preset) : showRule(rule);
  if (isJson) terminal.printJson(found);
  else terminal.print(`${verdict}: ${reason}${by === undefined ? '' : ` (${by})`}`);
  return verdict === 'allowed' ? 0 : 1;
}

function isChange({ texts, isSet }: Input): boolean {
  const isGiven = texts('allow').length + texts('preset').length > 0;
  if (isGiven && isSet('none')) throw new UsageError('--none excludes --allow and --preset');
  if (isGiven || isSet('none')) return true;
  if (isSet('log') && !isSet('add')) return true;
  for (const flag of ['add', 'if-generation', 'method', 'path'] as const)
    if (isSet(flag)) throw new UsageError(`--${flag} needs --allow, --preset or --none`);
  return false;
}

async function change(id: string, input: Input, { client, signal }: Session): Promise<ChangedNetwork> {
  const { network: target } = client.sandboxes.get(id);
  const { allowlist, rules } = toReadTargets(toTargets(input.texts('allow')), {
    methods: input.texts('method'),
    paths: input.texts('path'),
  });
  const presets = input.texts('preset');
  const text = input.text('if-generation');
  if (text !== undefined && !/^[1-9]\d{0,15}$/.test(text))
    throw new UsageError(`--if-generation ${JSON.stringify(text)} is not the number of a generation`);
  const log = input.text('log') as LogMode | undefined;
  const given = {
    ...(text !== undefined && { if_generation: Number(text) }),
    ...(log !== undefined && { log }),
  };
  const isLogOnly = !input.isSet('none') && allowlist.length + rules.length + presets.length === 0;
  if (isLogOnly) return await target.update(given, { signal });
  if (!input.isSet('add')) return await target.replace({ allowlist, rules, presets, ...given }, { signal });
  const before = await target.get({ signal });
  const changes = {
    ...(allowlist.length > 0 && { allowlist: [...new Set([...before.allowlist, ...allowlist])] }),
    ...(rules.length > 0 && { rules: [...(before.rules as readonly NetworkRule[]), ...rules] }),
    // Naming a preset takes the rules that it has now.
    ...(presets.length > 0 && {
      presets: [...new Set([...before.presets.map(({ name }) => name), ...presets])],
    }),
  };
  // Not over a change that was made meanwhile.
  return await target.update({ ...changes, if_generation: before.generation, ...given }, { signal });
}

function toRows({ allowlist, rules, presets }: NetworkPolicy): string[][] {
  return [
    ...allowlist.map((host) => [host, 'allowlist']),
    ...rules.map((rule) => [showRule(rule), 'rules']),
    ...presets.flatMap(({ name, rules: own }) =>
      own.length === 0 ? [['*', name]] : own.map((rule) => [showRule(rule), name]),
    ),
  ];
}
