// The program `sandbox`: selects the verb, reports errors, sets the exit code.
import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import { EXIT, type Input, UsageError } from '@sandboxd/api/command-line';
import { suggest } from '@sandboxd/api/suggest';
import { ApiError, CertificateError, ConnectionError, SandboxdError, UnauthorizedError } from '../errors.ts';
import { findVerbIndex, parseInput } from './args.ts';
import { complete } from './complete.ts';
import { COMPLETE_VERB, renderCompletion } from './completions.ts';
import { resolveContext, toClient } from './context.ts';
import { renderOverview, renderVerb } from './help.ts';
import { resolveOperands } from './names.ts';
import { Terminal } from './terminal.ts';
import type { Session, Verb } from './verb.ts';
import { VERBS } from './verbs.ts';
import { toVisibleJson } from './visible.ts';

const HELP: readonly string[] = ['--help', '-h'];

/** Runs the verb that the arguments name and ends the process. */
export async function runProgram(args: readonly string[]): Promise<void> {
  const terminal = new Terminal();
  const stop = new AbortController();
  // The output cannot be written: the reader has closed the pipe, or a disk is full.
  for (const stream of [terminal.stdout, terminal.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) =>
      stop.abort(error.code === 'EPIPE' ? new BrokenPipe() : new CannotWrite(error.message)),
    );
  const mode = { isJson: false };
  process.on('uncaughtException', (error) =>
    process.exit(explain(error, terminal, stop.signal, mode.isJson)),
  );
  const code = await run(args, terminal, stop, mode)
    .then(async (ended) => {
      // A write error is known only after the flush.
      await flush(terminal.stdout);
      stop.signal.throwIfAborted();
      return ended;
    })
    .catch((error: unknown) => explain(error, terminal, stop.signal, mode.isJson));
  await flush(terminal.stderr);
  process.exit(code);
}

class BrokenPipe extends Error {}
class Interrupted extends Error {}
class CannotWrite extends Error {}

/** `mode.isJson` is set as soon as the flags are parsed, for the error report. */
async function run(
  args: readonly string[],
  terminal: Terminal,
  stop: AbortController,
  mode: { isJson: boolean },
): Promise<number> {
  // Global flags may precede the verb.
  const at = findVerbIndex(args);
  const rest = args.filter((_, each) => each !== at);
  const [name] = args.slice(at < 0 ? args.length : at);
  if (name === undefined) {
    if (args.includes('--version')) return run(['version'], terminal, stop, mode);
    const [flag] = args;
    if (flag === undefined || HELP.includes(flag)) return print(terminal, renderOverview(VERBS));
    throw new UsageError(`a verb is missing behind ${flag}; \`sandbox --help\` lists them`);
  }
  if (name === 'help') {
    const [about] = rest;
    return print(terminal, about === undefined ? renderOverview(VERBS) : renderVerb(findVerb(about)));
  }
  if (name === COMPLETE_VERB) return print(terminal, renderCompletion(await complete(rest, VERBS)));
  const verb = findVerb(name);
  const input = parseInput(verb, rest);
  if (input.isSet('help')) return print(terminal, renderVerb(verb));
  mode.isJson = input.isSet('json');
  const session = toSession(input, terminal, stop.signal);
  // While a command runs, its verb handles the first Ctrl-C; otherwise, and from the second one on, the program stops.
  handleInterrupts(stop, () => process.listenerCount('SIGINT') > 1);
  const operands = verb.resolvesNames
    ? input.operands
    : await resolveOperands(verb, input.operands, () => session.client, stop.signal);
  const code = await verb.run({ ...input, operands }, session);
  stop.signal.throwIfAborted();
  return code ?? 0;
}

function handleInterrupts(stop: AbortController, isForwarded: () => boolean): void {
  let count = 0;
  const onSignal = (signal: NodeJS.Signals): void => {
    count++;
    if (count > 2) process.exit(EXIT.interrupted);
    if (count === 1 && isForwarded()) return;
    stop.abort(new Interrupted(`${signal} came`));
  };
  process.on('SIGINT', onSignal);
  for (const name of ['SIGTERM', 'SIGHUP'] as const)
    process.on(name, () => {
      if (process.listenerCount(name) === 1) onSignal(name);
    });
}

/** Names of other tools for our verbs. */
const ALIASES: Readonly<Record<string, string>> = {
  list: 'ps',
  doctor: 'checks',
  port: 'ports',
  net: 'network',
  secrets: 'secret',
  link: 'open',
  'port-forward': 'forward',
  tunnel: 'forward',
  nc: 'connect',
  create: 'run',
  start: 'run',
  unpause: 'resume',
  suspend: 'pause',
  shell: 'exec',
  stop: 'rm',
  delete: 'rm',
  top: 'stats',
  rename: 'update',
  label: 'update',
  commit: 'snapshot',
  restore: 'rollback',
  revert: 'rollback',
  compare: 'diff',
  changes: 'diff',
  clone: 'fork',
  save: 'export',
  load: 'import',
  login: 'context',
  nodes: 'hosts',
};

function findVerb(name: string): Verb {
  const verb = VERBS.find((each) => each.name === name);
  if (verb !== undefined) return verb;
  const known = VERBS.map((each) => each.name);
  const near = Object.hasOwn(ALIASES, name) ? `; did you mean ${ALIASES[name]}?` : suggest(name, known);
  throw new UsageError(
    `there is no verb ${JSON.stringify(name)}${near || ';'} \`sandbox --help\` lists them`,
  );
}

/** `host` and `client` are resolved lazily: some verbs need no daemon. */
function toSession({ text, isSet }: Input, terminal: Terminal, signal: AbortSignal): Session {
  const toContext = () => resolveContext({ host: text('host'), context: text('context'), ca: text('ca') });
  return {
    terminal,
    signal,
    isJson: isSet('json'),
    complain: (line, code) => {
      if (isSet('json')) terminal.stderr.write(`${toVisibleJson({ error: line, code })}\n`);
      else terminal.complain(line);
    },
    get host() {
      return toContext().host;
    },
    get client() {
      return toClient(toContext());
    },
  };
}

function explain(error: unknown, terminal: Terminal, signal: AbortSignal, isJson: boolean): number {
  if (signal.reason instanceof BrokenPipe) return EXIT.brokenPipe;
  if (signal.reason instanceof CannotWrite) {
    terminal.complain(`the output cannot be written: ${signal.reason.message}`);
    return EXIT.failed;
  }
  if (signal.aborted) return EXIT.interrupted;
  const message = `${describe(error)}${advise(error)}`;
  const { status, code } = error instanceof ApiError ? error : {};
  const { requestId } = error instanceof ApiError || error instanceof ConnectionError ? error : {};
  if (isJson)
    terminal.stderr.write(`${toVisibleJson({ error: message, code, status, request_id: requestId })}\n`);
  else terminal.complain(message);
  if (process.env.SANDBOXD_DEBUG) for (const line of inspect(error).split('\n')) terminal.debug(line);
  return error instanceof UsageError ? EXIT.usage : EXIT.failed;
}

/** An unexpected error is printed with its class, because it is a bug to report. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return `unexpected: ${String(error)}`;
  const isExpected = error instanceof SandboxdError || error instanceof UsageError || 'code' in error;
  return isExpected
    ? error.message
    : `unexpected ${error.name}: ${error.message}; SANDBOXD_DEBUG=1 shows where it came from`;
}

function advise(error: unknown): string {
  if (error instanceof UnauthorizedError) return '; set SANDBOXD_API_KEY, or `sandbox context set`';
  if (error instanceof ConnectionError && !(error instanceof CertificateError)) {
    if (error.isUnsent)
      return '; is sandboxd running there? --host, SANDBOXD_HOST or `sandbox context` say where it is';
    return error.requestId === undefined ? '' : ` (request ${error.requestId})`;
  }
  if (!(error instanceof CertificateError)) return '';
  const { code } = error.cause as NodeJS.ErrnoException;
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID')
    return '; it needs another one, unless the clock here is wrong';
  if (code !== 'ERR_TLS_CERT_ALTNAME_INVALID')
    return '; --ca or SANDBOXD_CA names a file with the certificate of its authority';
  return '';
}

function print(terminal: Terminal, text: string): number {
  terminal.stdout.write(text);
  return 0;
}

/** Resolves when everything is written, or when a write error has been reported. */
async function flush(stream: NodeJS.WriteStream): Promise<void> {
  if (!stream.destroyed) await new Promise<void>((resolve) => void stream.write('', () => resolve()));
  await setImmediate();
}
