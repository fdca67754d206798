// `sandbox run`: creates a sandbox and runs a command in it.

import { type Input, UsageError } from '@sandboxd/api/command-line';
import { suggest } from '@sandboxd/api/suggest';
import type { Client } from '../../client.ts';
import type { CreateOptions, KeyedOptions } from '../../contract.ts';
import { ApiError, NotFoundError, UpstreamError } from '../../errors.ts';
import type { Sandbox } from '../../sandbox.ts';
import { attach, attachJson } from '../attach.ts';
import { toTargets } from '../network-targets.ts';
import { toBytes, toCount, toLabels, toMib, toPort, toSeconds } from '../units.ts';
import type { Session, Verb } from '../verb.ts';
import { EXEC_FLAGS, toExecOptions } from './exec-flags.ts';
import { pullVisibly } from './images.ts';

/** Standard error stays the terminal, because shells write their prompt there. */
const SHELL = ['sh', '-c', 'command -v bash >/dev/null && exec bash; exec sh'];

export const run: Verb = {
  name: 'run',
  operands: '<image|profile> [command…]',
  completes: ['source', 'path'],
  summary: 'Create a sandbox and run a command in it',
  details:
    'Without a command it prints the id of the sandbox; with -it it starts a shell. The exit code is the command’s. The sandbox stays until it is removed, unless --rm is given.',
  flags: {
    ...EXEC_FLAGS,
    rm: { type: 'boolean', help: 'remove the sandbox after the command' },
    detach: {
      type: 'boolean',
      short: 'd',
      help: 'run the command as the service of the sandbox, and print the id',
    },
    publish: {
      type: 'string',
      short: 'p',
      multiple: true,
      placeholder: 'port:port',
      help: 'publish a port: host port, port in the sandbox',
    },
    name: { type: 'string', placeholder: 'name', help: 'name of the sandbox, usable in place of its id' },
    label: {
      type: 'string',
      short: 'l',
      multiple: true,
      placeholder: 'key=value',
      help: 'set a label of the sandbox',
    },
    memory: { type: 'string', short: 'm', placeholder: 'size', help: 'memory, such as 512m or 2g' },
    cpus: { type: 'string', placeholder: 'number', help: 'virtual CPUs' },
    disk: { type: 'string', placeholder: 'size', help: 'size of the writable layer, such as 8g' },
    'network-allow': {
      type: 'string',
      multiple: true,
      placeholder: 'host[:ports]',
      help: 'allow network access to a host, such as *.debian.org, or to ports of it, such as github.com:22',
    },
    'network-preset': {
      type: 'string',
      multiple: true,
      placeholder: 'name',
      help: 'allow what a preset of the operator has',
    },
    'idle-timeout': {
      type: 'string',
      placeholder: 'time',
      help: 'idle timeout, after which the sandbox ends',
    },
    'idle-action': {
      type: 'string',
      placeholder: 'delete|snapshot|pause',
      help: 'action after the idle timeout; default: delete',
    },
    timeout: { type: 'string', placeholder: 'time', help: 'maximum lifetime, such as 30s, 10m or 2h' },
    'idempotency-key': {
      type: 'string',
      placeholder: 'key',
      help: 'a run with the key of an earlier one uses its sandbox, for a day',
    },
    'timeout-action': {
      type: 'string',
      placeholder: 'delete|pause',
      help: 'action at the end of the lifetime; default: delete',
    },
    pull: {
      type: 'string',
      placeholder: 'when',
      values: ['missing', 'always', 'never'],
      help: 'when to pull an image: missing, always or never',
    },
  },
  commandFrom: 1,
  example: 'sandbox run --rm base uname -sr',
  async run(input, session) {
    const { client, terminal, signal, isJson } = session;
    const [source = '', ...args] = input.operands;
    // As in other tools, the variables are those of the sandbox: later commands have them, too.
    const { env, ...options } = toExecOptions(input);
    const isShell = args.length === 0 && options.hasTerminal;
    const cmd = isShell ? SHELL : args;
    const isDetached = input.isSet('detach') || cmd.length === 0;
    if (isDetached && input.isSet('rm')) throw new UsageError('--rm needs a command to wait for, and no -d');
    const { near, ...from } = await toSource(client, source, signal);
    const ownEnv = env && Object.keys(env).length > 0 ? { env } : {};
    const request = { ...toRequest(input), ...ownEnv, ...from };
    await pullFirst(session, request).catch((error: unknown) => {
      if (!(error instanceof UpstreamError)) throw error;
      throw new UpstreamError(error.status, `${error.message}${near}`, error.requestId, error.code);
    });
    const service = isDetached && cmd.length > 0 ? { service: toService(cmd, options) } : {};
    const idempotencyKey = input.text('idempotency-key');
    const sandbox = await create(session, { ...request, ...service, idempotencyKey });
    if (isDetached) {
      if (isJson) terminal.printJson(await sandbox.info({ signal }));
      else terminal.print(sandbox.id);
      return 0;
    }
    try {
      return await (isJson ? attachJson : attach)(sandbox, cmd, options, session);
    } finally {
      if (input.isSet('rm')) await remove(sandbox, session);
      else terminal.note(`sandbox ${sandbox.id} keeps running; \`sandbox rm ${sandbox.id}\` removes it`);
    }
  },
};

/** A failed removal is only reported, with the sandbox's id; the exit code stays the command's. */
async function remove(sandbox: Sandbox, { complain }: Session): Promise<void> {
  await sandbox[Symbol.asyncDispose]().catch((error: Error) => {
    const line = `sandbox ${sandbox.id} may be left; \`sandbox rm ${sandbox.id}\` removes it: ${error.message}`;
    complain(line, error instanceof ApiError ? error.code : undefined);
  });
}

async function create(
  { client, terminal, signal }: Parameters<Verb['run']>[1],
  request: CreateOptions & KeyedOptions,
) {
  using _ = terminal.progress('creating a sandbox');
  return await client.sandboxes.create({ ...request, signal });
}

/**
 * Pulls before the create, because only a separate pull shows progress. The create then finds the image, or pulls it
 * again.
 */
async function pullFirst(
  session: Session,
  request: { image?: CreateOptions['image']; pull?: CreateOptions['pull'] },
): Promise<void> {
  const ref = request.image?.oci;
  if (!ref || request.pull === 'never') return;
  await pullVisibly(session.client, ref, request.pull === 'always' ? 'always' : 'missing', session);
  request.pull = 'missing';
}

/** A profile's name takes precedence over an image's. `near` suggests a profile with a similar name. */
async function toSource(
  client: Client,
  source: string,
  signal: AbortSignal,
): Promise<CreateOptions & { readonly near: string }> {
  const { profiles } = await client.profiles({ signal });
  if (profiles.includes(source)) return { profile: source, near: '' };
  // When images are disabled, an error about images would not help a user who misspelt a profile.
  const isOff = await client.images.list({ signal }).then(
    () => false,
    (error: { status?: number }) => error.status === 501,
  );
  if (isOff)
    throw new NotFoundError(
      404,
      `there is no profile ${source}; there are ${profiles.join(', ')}, and this daemon has no images`,
    );
  return { image: { oci: source }, near: suggest(source, profiles) };
}

function toRequest({ text, texts }: Input): CreateOptions {
  const [memory, cpus, disk, timeout, pull] = ['memory', 'cpus', 'disk', 'timeout', 'pull'].map(text);
  const idleTimeout = text('idle-timeout');
  const [idleAction, timeoutAction] = [text('idle-action'), text('timeout-action')];
  const presets = texts('network-preset');
  const { allowlist, rules } = toTargets(texts('network-allow'));
  const isNetwork = allowlist.length + rules.length + presets.length > 0;
  const targets = {
    ...(allowlist.length > 0 && { allowlist }),
    ...(rules.length > 0 && { rules }),
    ...(presets.length > 0 && { presets }),
  };
  const publish = texts('publish').map(toPort);
  const [name, labels] = [text('name'), texts('label')];
  return {
    ...(name !== undefined && { name }),
    ...(labels.length > 0 && { labels: toLabels(labels) }),
    ...(memory !== undefined && { memory_mib: toMib('memory', memory) }),
    ...(cpus !== undefined && { vcpus: toCount('cpus', cpus) }),
    ...(disk !== undefined && { disk_bytes: toBytes('disk', disk) }),
    ...(timeout !== undefined && { timeout_s: toSeconds('timeout', timeout) }),
    ...(timeoutAction !== undefined && { timeout_action: timeoutAction as 'delete' }),
    ...(idleTimeout !== undefined && { idle_timeout_s: toSeconds('idle-timeout', idleTimeout) }),
    ...(idleAction !== undefined && { idle_action: idleAction as 'delete' }),
    ...(pull !== undefined && { pull: pull as 'missing' }),
    ...(isNetwork && { network: { enabled: true, ...targets } }),
    ...(publish.length > 0 && { publish }),
  };
}

function toService(cmd: readonly string[], { cwd, user }: Omit<ReturnType<typeof toExecOptions>, 'env'>) {
  return { cmd, ...(cwd !== undefined && { cwd }), ...(user !== undefined && { user }) };
}
