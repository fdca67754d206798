// The sandbox of a build, and what its steps do there. All by the REST interface, with the rights of the client.
import { posix } from 'node:path';
import type { ExecPiece } from '@sandboxd/api';
import { ApiError, type CommandInfo, type ExecResult } from '@sandboxd/client';
import { GuestUsers } from '../envd/guest-users.ts';
import { E2bError } from '../errors.ts';
import type { Requests } from '../rest.ts';
import { type BuildLog, type Step, StepError } from './build-request.ts';
import { ADD_USER, COPY, MAKE_DIRECTORY, PrintedVariables, setVariables } from './scripts.ts';
import type { Defaults } from './template.ts';
import { readArchive } from './uploads.ts';

export type BuildStepsOptions = {
  readonly id: string;
  /** Until the build is cancelled, or takes too long. */
  readonly requests: Requests;
  readonly log: BuildLog;
  readonly defaults: Defaults | undefined;
  readonly findArchive: (hash: string) => string;
};

type Run = {
  readonly cmd: readonly string[];
  readonly user: string;
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Until it is ended. */
  readonly timeoutS?: number;
  /** Of its output. */
  readonly onLine?: (line: string) => void;
  /** Of stdout, as it comes. */
  readonly onText?: (text: string) => void;
};

/** Lines of output that the reason of a failure has. */
const TAIL_LINES = 10;
const READY_POLL_MS = 500;
const READY_TIMEOUT_MS = 5 * 60_000;
const READ_ENV_TIMEOUT_S = 30;
/** Without a ready command. */
const DEFAULT_READY_CMD = 'sleep 20';

export class BuildSteps {
  readonly #options: BuildStepsOptions;
  readonly #users = new GuestUsers();
  #env: Readonly<Record<string, string>>;
  #shell: readonly string[] = ['/bin/bash', '-l', '-c'];
  #user: string | undefined;
  #workdir: string | undefined;

  constructor(options: BuildStepsOptions) {
    this.#options = options;
    const { env = {}, user, workdir } = options.defaults ?? {};
    this.#env = { ...env };
    this.#user = user;
    this.#workdir = workdir;
  }

  /** What copies begin with. */
  get defaults(): Defaults {
    return {
      env: this.#env,
      ...(this.#user !== undefined && { user: this.#user }),
      ...(this.#workdir !== undefined && { workdir: this.#workdir }),
    };
  }

  /** `isImage`: it gets the user that E2B's templates have, if it can. */
  async open(isImage: boolean): Promise<void> {
    if (!(await this.#exists('/bin/bash'))) this.#shell = ['/bin/sh', '-c'];
    if (isImage) await this.#script(ADD_USER, []);
  }

  /** StepError. */
  async perform(step: Step): Promise<void> {
    switch (step.type) {
      case 'RUN':
        return await this.#runLine(step.line, step.user);
      case 'COPY':
        return await this.#copy(step);
      case 'ENV':
        return await this.#setEnv(step.pairs);
      case 'WORKDIR': {
        const { name, home } = await this.#findUser();
        const directory = expandHome(step.directory, home, await this.#cwd());
        await this.#script(MAKE_DIRECTORY, [directory, name]);
        this.#workdir = directory;
        return;
      }
      case 'USER':
        await this.#findUser(step.user);
        this.#user = step.user;
    }
  }

  /** Runs the start command until the ready command succeeds. It runs on. StepError. */
  async start(startCmd: string | undefined, readyCmd: string | undefined): Promise<void> {
    const { log } = this.#options;
    const started = startCmd === undefined ? undefined : await this.#detach(startCmd);
    if (started === undefined && readyCmd === undefined) return;
    const endMs = performance.now() + READY_TIMEOUT_MS;
    for (;;) {
      const tail = new Tail();
      const timeoutS = Math.max(1, Math.ceil((endMs - performance.now()) / 1000));
      const isReady = (await this.#line(readyCmd ?? DEFAULT_READY_CMD, tail, { timeoutS })) === 0;
      const ended = started === undefined ? undefined : await this.#endOf(started);
      if (ended !== undefined && ended.exit_code !== 0)
        throw new StepError(
          `the start command ended with ${describeEnd(ended)} before the template was ready`,
        );
      if (isReady) break;
      if (performance.now() > endMs)
        throw new StepError(
          `the ready command did not succeed within ${READY_TIMEOUT_MS / 1000} s${tail.toReason()}`,
        );
      await new Promise((resolve) => setTimeout(resolve, READY_POLL_MS));
    }
    log.add('the template is ready');
  }

  async #runLine(line: string, user: string | undefined): Promise<void> {
    const tail = new Tail((text) => this.#options.log.add(text));
    // In E2B's words.
    const what = `failed to run command '${line.slice(0, 200)}'`;
    const code = await this.#line(line, tail, { user }).catch((error: unknown) => {
      if (!(error instanceof StepError)) throw error;
      throw new StepError(`${what}: command failed: unauthenticated: ${error.message}`);
    });
    if (code !== 0) throw new StepError(`${what}: exit status ${code}${tail.toReason()}`);
  }

  async #line(
    line: string,
    tail: Tail,
    { user, timeoutS = 0 }: { readonly user?: string | undefined; readonly timeoutS?: number },
  ): Promise<number | string> {
    const { name } = await this.#findUser(user);
    const cwd = await this.#cwd(user);
    const run = { cmd: [...this.#shell, line], user: name, cwd, env: this.#env, timeoutS };
    return toCode(await this.#run({ ...run, onLine: (text) => tail.add(text) }));
  }

  async #detach(line: string): Promise<string> {
    const { requests, id } = this.#options;
    const { name } = await this.#findUser();
    const cmd = [...this.#shell, line];
    const body = { cmd, env: this.#env, cwd: await this.#cwd(), user: name, detach: true };
    const command = (await requests.call('exec', { params: { id }, body })) as unknown as CommandInfo;
    return command.id;
  }

  async #endOf(cid: string): Promise<ExecResult | undefined> {
    const { requests, id } = this.#options;
    const { result } = await requests.call('getCommand', { params: { id, cid } });
    return result;
  }

  async #copy({ source, destination, user, mode, hash }: Step & { type: 'COPY' }): Promise<void> {
    const { requests, id, findArchive } = this.#options;
    const { name, home } = await this.#findUser(user);
    const target = expandHome(destination, home, await this.#cwd());
    const staging = `/tmp/.build-${hash.slice(0, 16)}`;
    const bytes = readArchive(findArchive(hash));
    // Links in it may lead anywhere, as in a Dockerfile, so the guest unpacks it and not the agent.
    await requests.call('writeContent', {
      params: { id },
      query: { path: `${staging}/archive` },
      bytes,
    });
    const isDirectory = /\/$|(?:^|\/)\.$/.test(destination) || /[*?[]/.test(source);
    await this.#script(COPY, [staging, source, target, name, mode ?? '', isDirectory ? '1' : '']);
  }

  async #setEnv(pairs: readonly (readonly [string, string])[]): Promise<void> {
    const needsGuest = pairs.some(([, value]) => value.includes('$'));
    this.#env = setVariables(this.#env, pairs, needsGuest ? await this.#readEnv() : new Map());
  }

  async #readEnv(): Promise<ReadonlyMap<string, string>> {
    const printed = new PrintedVariables();
    const { name } = await this.#findUser();
    const { timed_out } = await this.#run({
      cmd: [...this.#shell, 'env'],
      user: name,
      cwd: '/',
      timeoutS: READ_ENV_TIMEOUT_S,
      onText: (text) => printed.add(text),
    });
    if (timed_out)
      throw new StepError(`the login shell did not print its variables within ${READ_ENV_TIMEOUT_S} s`);
    return printed.read();
  }

  /** As root. StepError. */
  async #script(script: string, args: readonly string[]): Promise<void> {
    const tail = new Tail();
    const cmd = ['/bin/sh', '-c', script, 'sh', ...args];
    const code = toCode(await this.#run({ cmd, user: 'root', cwd: '/', onLine: (line) => tail.add(line) }));
    if (code !== 0) throw new StepError(`it ended with ${code}${tail.toReason()}`);
  }

  async #run({ cmd, user, cwd, env = {}, timeoutS = 0, onLine, onText }: Run): Promise<ExecResult> {
    const { requests, id } = this.#options;
    let result: ExecResult | undefined;
    const joiners = { stdout: new Lines(onLine), stderr: new Lines(onLine) };
    try {
      const body = { cmd, user, cwd, env, timeout_s: timeoutS };
      await requests.lines('exec', { params: { id }, body }, (line) => {
        const piece = line as ExecPiece;
        if ('result' in piece) result = piece.result as ExecResult;
        else {
          const { stream, data, base64 } = piece;
          const text = base64 === true ? Buffer.from(data, 'base64').toString() : data;
          joiners[stream].add(text);
          if (stream === 'stdout') onText?.(text);
        }
      });
    } catch (error) {
      if (error instanceof ApiError && error.status === 400) throw new StepError(error.message);
      throw error;
    }
    for (const joiner of Object.values(joiners)) joiner.end();
    if (result === undefined) throw new E2bError(500, 'the end of a command was not heard of');
    return result;
  }

  async #findUser(name = this.#user) {
    try {
      return await this.#users.find(this.#options.requests, this.#options.id, name);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      throw new StepError((error as Error).message);
    }
  }

  async #cwd(user?: string): Promise<string> {
    return this.#workdir ?? (await this.#findUser(user)).home;
  }

  async #exists(path: string): Promise<boolean> {
    const { requests, id } = this.#options;
    try {
      await requests.call('statFile', { params: { id }, query: { path } });
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return false;
      throw error;
    }
  }
}

function expandHome(path: string, home: string, cwd: string): string {
  return path === '~' || path.startsWith('~/') ? posix.join(home, path.slice(1)) : posix.resolve(cwd, path);
}

function describeEnd(result: ExecResult): string {
  return String(toCode(result));
}

/** The exit code, or why there is none. */
function toCode({ exit_code, signal, error, timed_out }: ExecResult): number | string {
  if (timed_out) return 'no end in time';
  return signal ?? (exit_code === 0 && error !== undefined ? error : exit_code);
}

/** The last lines, for the reason of a failure. */
class Tail {
  readonly #lines: string[] = [];
  readonly #onLine: ((line: string) => void) | undefined;

  constructor(onLine?: (line: string) => void) {
    this.#onLine = onLine;
  }

  add(line: string): void {
    this.#onLine?.(line);
    this.#lines.push(line.slice(0, 1000));
    if (this.#lines.length > TAIL_LINES) this.#lines.shift();
  }

  toReason(): string {
    return this.#lines.length === 0 ? '' : `: ${this.#lines.join('\n')}`;
  }
}

/** Whole lines of text that comes in pieces. */
class Lines {
  readonly #onLine: ((line: string) => void) | undefined;
  #rest = '';

  constructor(onLine: ((line: string) => void) | undefined) {
    this.#onLine = onLine;
  }

  add(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#onLine?.(line);
    if (this.#rest.length <= MAX_LINE_CHARS) return;
    this.#onLine?.(this.#rest);
    this.#rest = '';
  }

  end(): void {
    if (this.#rest !== '') this.#onLine?.(this.#rest);
  }
}

const MAX_LINE_CHARS = 4096;
