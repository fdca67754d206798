// The command `sandbox`: which verb the words ask for, what its failures look like, what its exit code is.
import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import { suggest } from '@sandboxd/api/suggest';
import { ApiError, CertificateError, ConnectionError, SandboxdError, UnauthorizedError } from '../errors.ts';
import { complete } from './complete.ts';
import { ASK, renderCompletion } from './completions.ts';
import { resolveContext, toClient } from './context.ts';
import { renderOverview, renderVerb } from './help.ts';
import { Terminal } from './terminal.ts';
import { type Input, type Session, UsageError, type Verb } from './verb.ts';
import { VERBS } from './verbs.ts';
import { toVisibleJson } from './visible.ts';
import { findVerbWord, readWords } from './words.ts';

const HELP: readonly string[] = ['--help', '-h'];
const EXIT = { failed: 1, usage: 2, interrupted: 130, brokenPipe: 141 } as const;

/** Runs what the words ask for and ends the process. */
export async function runProgram(words: readonly string[]): Promise<void> {
  const terminal = new Terminal();
  const stop = new AbortController();
  // Nobody reads any longer, or a disk is full.
  for (const stream of [terminal.stdout, terminal.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) =>
      stop.abort(error.code === 'EPIPE' ? new BrokenPipe() : new CannotWrite(error.message)),
    );
  const asked = { isJson: false };
  process.on('uncaughtException', (error) =>
    process.exit(explain(error, terminal, stop.signal, asked.isJson)),
  );
  const code = await run(words, terminal, stop, asked)
    .then(async (ended) => {
      // Whether all of it was written is known only now.
      await flush(terminal.stdout);
      stop.signal.throwIfAborted();
      return ended;
    })
    .catch((error: unknown) => explain(error, terminal, stop.signal, asked.isJson));
  await flush(terminal.stderr);
  process.exit(code);
}

class BrokenPipe extends Error {}
class Interrupted extends Error {}
class CannotWrite extends Error {}

/** `asked` is filled in as soon as it is known. */
async function run(
  words: readonly string[],
  terminal: Terminal,
  stop: AbortController,
  asked: { isJson: boolean },
): Promise<number> {
  // Flags for every verb may stand before it.
  const at = findVerbWord(words);
  const rest = words.filter((_, each) => each !== at);
  const [name] = words.slice(at < 0 ? words.length : at);
  if (name === undefined) {
    if (words.includes('--version')) return run(['version'], terminal, stop, asked);
    const [flag] = words;
    if (flag === undefined || HELP.includes(flag)) return print(terminal, renderOverview(VERBS));
    throw new UsageError(`a verb is missing behind ${flag}; \`sandbox --help\` lists them`);
  }
  if (name === 'help') {
    const [about] = rest;
    return print(terminal, about === undefined ? renderOverview(VERBS) : renderVerb(findVerb(about)));
  }
  if (name === ASK) return print(terminal, renderCompletion(await complete(rest, VERBS)));
  const verb = findVerb(name);
  const input = readWords(verb, rest);
  if (input.isSet('help')) return print(terminal, renderVerb(verb));
  asked.isJson = input.isSet('json');
  const session = toSession(input, terminal, stop.signal);
  // What a first Ctrl-C means is the verb's affair while a command runs; else, and the second time, all is to end.
  obeyInterrupts(stop, () => process.listenerCount('SIGINT') > 1);
  const code = await verb.run(input, session);
  stop.signal.throwIfAborted();
  return code ?? 0;
}

function obeyInterrupts(stop: AbortController, isForwarded: () => boolean): void {
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

/** What is called otherwise elsewhere. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  ls: 'ps',
  list: 'ps',
  port: 'ps',
  create: 'run',
  start: 'run',
  ssh: 'exec',
  shell: 'exec',
  attach: 'exec',
  stop: 'rm',
  kill: 'rm',
  delete: 'rm',
  top: 'stats',
  commit: 'snapshot',
  save: 'export',
  load: 'import',
  login: 'context',
};

function findVerb(name: string): Verb {
  const verb = VERBS.find((each) => each.name === name);
  if (verb !== undefined) return verb;
  const known = VERBS.map((each) => each.name);
  const near = Object.hasOwn(ELSEWHERE, name) ? `; did you mean ${ELSEWHERE[name]}?` : suggest(name, known);
  throw new UsageError(
    `there is no verb ${JSON.stringify(name)}${near || ';'} \`sandbox --help\` lists them`,
  );
}

/** Which daemon is meant is found out only for a verb that wants one. */
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
  const said = `${describe(error)}${advise(error)}`;
  const { status, code } = error instanceof ApiError ? error : {};
  const { requestId } = error instanceof ApiError || error instanceof ConnectionError ? error : {};
  if (isJson)
    terminal.stderr.write(`${toVisibleJson({ error: said, code, status, request_id: requestId })}\n`);
  else terminal.complain(said);
  if (process.env.SANDBOXD_DEBUG) for (const line of inspect(error).split('\n')) terminal.debug(line);
  return error instanceof UsageError ? EXIT.usage : EXIT.failed;
}

/** What nobody has foreseen is called by its kind: it is to be reported. */
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

/** Resolves when all is written, or when what went wrong has been told. */
async function flush(stream: NodeJS.WriteStream): Promise<void> {
  if (!stream.destroyed) await new Promise<void>((resolve) => void stream.write('', () => resolve()));
  await setImmediate();
}
