// The code interpreter of a sandbox of the profile `code`: cells in contexts, each with a state of its own. It is
// reached by a command in the sandbox, so a key that may run commands may run code, and a paused sandbox resumes.
import { readLines } from './connection/lines.ts';
import type { Requests } from './connection/requests.ts';
import type { CallOptions } from './contract.ts';
import { describeEnd, SandboxdError, TimeoutError } from './errors.ts';
import { Exec, type ExecOptions } from './exec/exec.ts';
import { type Budget, parseGuestJson } from './guest-json.ts';

const SERVER = 'http://127.0.0.1:49999';
/** The kernel takes no argument of 128 KiB; a longer request is input of the command. */
const MAX_ARGUMENT_BYTES = 100_000;
const DEFAULT_MAX_OUTPUT_BYTES = 64 << 20;
const MAX_STDERR_CHARS = 2000;
const MAX_RESULTS = 10_000;
/** In all results of a cell: numbers, texts, lists and so on. */
const MAX_VALUES = 2_000_000;
const HEADERS = ['-H', 'Content-Type: application/json', '-H', 'Expect:'];
const CURL = ['curl', '-q', '-sSN', '--fail-with-body', '--noproxy', '*', ...HEADERS];
/** Exit codes of curl: nothing listens; the answer is an error. */
const NOT_LISTENING = 7;
const REFUSED = 22;

/** The code could not be run: the context does not exist, the language is not supported, or there is no interpreter. */
export class CodeError extends SandboxdError {
  override readonly name = 'CodeError';
  /** HTTP status of the interpreter; undefined when there is none. */
  readonly status: number | undefined;

  constructor(message: string, status?: number) {
    super(message);
    this.status = status;
  }
}

/** Value of the last line (`isMain`), or what the cell has shown. Each format is present if the value has it. */
export type CodeResult = {
  readonly isMain: boolean;
  readonly text?: string;
  readonly html?: string;
  readonly markdown?: string;
  readonly latex?: string;
  readonly svg?: string;
  readonly javascript?: string;
  /** Base64. */
  readonly png?: string;
  readonly jpeg?: string;
  readonly pdf?: string;
  readonly json?: unknown;
  /** Columns of a data frame. */
  readonly data?: Readonly<Record<string, readonly unknown[]>>;
  /** What a figure of matplotlib shows. */
  readonly chart?: Readonly<Record<string, unknown>>;
  /** Others, by their MIME type. */
  readonly extra?: Readonly<Record<string, unknown>>;
};

export type CodeFailure = { readonly name: string; readonly value: string; readonly traceback: string };

export type Execution = {
  /** Text of the value of the last line. */
  readonly text: string | undefined;
  readonly results: readonly CodeResult[];
  readonly stdout: string;
  readonly stderr: string;
  /** What the code has thrown. */
  readonly error: CodeFailure | undefined;
  readonly executionCount: number | undefined;
};

export type CodeOptions = {
  /** Default: the one that every sandbox has. */
  readonly context?: string | Pick<CodeContextInfo, 'id'>;
  /** Default: python, which is the only one. */
  readonly language?: string;
  /** Variables for this cell only. */
  readonly env?: Readonly<Record<string, string>>;
  /** Then the cell is interrupted: TimeoutError. */
  readonly timeoutS?: number;
  readonly onStdout?: (text: string) => void;
  readonly onStderr?: (text: string) => void;
  readonly onResult?: (result: CodeResult) => void;
  /** Default: 64 MiB. More is an error. */
  readonly maxOutputBytes?: number;
  /** Interrupts the cell. */
  readonly signal?: AbortSignal;
};

export type CodeContextInfo = { readonly id: string; readonly language: string; readonly cwd: string };

export type CreateContextOptions = Pick<CallOptions, 'signal'> & {
  readonly language?: string;
  /** Default: /home/user. */
  readonly cwd?: string;
};

type Signalled = Pick<CallOptions, 'signal'>;

export class Code {
  readonly #requests: Requests;
  readonly #id: string;

  constructor(requests: Requests, id: string) {
    this.#requests = requests;
    this.#id = id;
  }

  /** Runs a cell. An exception of the code is in `error` of its result. CodeError, TimeoutError. */
  async run(source: string, options: CodeOptions = {}): Promise<Execution> {
    const { context, language, env, timeoutS, signal, maxOutputBytes = DEFAULT_MAX_OUTPUT_BYTES } = options;
    const body = {
      code: source,
      ...(context !== undefined && { context_id: typeof context === 'string' ? context : context.id }),
      ...(language !== undefined && { language }),
      ...(env !== undefined && { env_vars: env }),
    };
    const limits = { ...(timeoutS !== undefined && { timeoutS }), ...(signal && { signal }) };
    // Values of variables may be secrets, and arguments are listed.
    const lines = this.#request(
      'POST',
      '/execute',
      { body, maxOutputBytes, isSecret: env !== undefined },
      limits,
    );
    const gathered = new Gathered(options);
    const budget = { values: MAX_VALUES };
    for await (const line of lines) gathered.push(parse(line, budget));
    return gathered.end();
  }

  /** Makes a context: a state of its own. */
  async createContext({ signal, ...body }: CreateContextOptions = {}): Promise<CodeContextInfo> {
    return toContext(await this.#call('POST', '/contexts', { body }, { signal }));
  }

  async contexts({ signal }: Signalled = {}): Promise<readonly CodeContextInfo[]> {
    const found = await this.#call('GET', '/contexts', {}, { signal });
    if (!Array.isArray(found)) throw invalid();
    return found.map(toContext);
  }

  /** Its state is gone, and what runs in it ends with an error. */
  async restartContext(id: string, { signal }: Signalled = {}): Promise<void> {
    await this.#call('POST', `/contexts/${encodeURIComponent(id)}/restart`, {}, { signal });
  }

  async deleteContext(id: string, { signal }: Signalled = {}): Promise<void> {
    await this.#call('DELETE', `/contexts/${encodeURIComponent(id)}`, {}, { signal });
  }

  async #call(method: string, path: string, sent: Sent, { signal }: Signalled): Promise<unknown> {
    let text = '';
    for await (const line of this.#request(method, path, sent, signal === undefined ? {} : { signal }))
      text += line;
    return parse(text);
  }

  /** Lines of the answer. */
  async *#request(
    method: string,
    path: string,
    { body, maxOutputBytes = DEFAULT_MAX_OUTPUT_BYTES, isSecret = false }: Sent,
    limits: Pick<ExecOptions, 'timeoutS' | 'signal'>,
  ): AsyncGenerator<string, void> {
    const json = body === undefined ? undefined : JSON.stringify(body);
    const isArgument = json === undefined || (!isSecret && byteLength(json) <= MAX_ARGUMENT_BYTES);
    const data = json === undefined ? [] : ['--data-binary', isArgument ? json : '@-'];
    const cmd = [...CURL, '-X', method, ...data, SERVER + path];
    const options = { ...limits, env: {}, ...(!isArgument && json !== undefined && { stdin: json }) };
    await using exec = new Exec(this.#requests, this.#id, cmd, options);
    let stderr = '';
    let last = '';
    let bytes = 0;
    async function* stdout(): AsyncGenerator<Uint8Array, void> {
      for await (const { stream, data: chunk, text } of exec) {
        bytes += chunk.length;
        if (bytes > maxOutputBytes)
          throw new SandboxdError(`the code has more than ${maxOutputBytes} bytes of output and results`);
        if (stream === 'stdout') yield chunk;
        else stderr = (stderr + text).slice(-MAX_STDERR_CHARS);
      }
      yield NEWLINE;
    }
    for await (const line of readLines(stdout(), maxOutputBytes)) {
      if (line === '') continue;
      // The only line of an answer that is an error.
      if (last !== '') yield last;
      last = line;
      if (last.startsWith('{"type"')) {
        yield last;
        last = '';
      }
    }
    const result = await exec.result();
    if (result.exit_code === 0) {
      if (last !== '') yield last;
      return;
    }
    if (result.timed_out) throw new TimeoutError(`the code was interrupted after ${limits.timeoutS} s`);
    if (result.exit_code === REFUSED) throw toRefusal(last);
    const lacksProgram = result.error !== undefined || result.exit_code === NOT_LISTENING;
    throw new CodeError(
      lacksProgram
        ? 'no code interpreter answers in this sandbox; those of the profile code have one'
        : `the code interpreter cannot be reached: curl ${describeEnd(result)}: ${stderr.trim()}`,
    );
  }
}

type Sent = {
  readonly body?: object;
  readonly maxOutputBytes?: number;
  readonly isSecret?: boolean;
};

const NEWLINE = new TextEncoder().encode('\n');

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** What a guest has sent; it may be anything. */
type Line = Readonly<Record<string, unknown>>;

function parse(text: string, budget: Budget = { values: MAX_VALUES }): unknown {
  const parsed = parseGuestJson(text, budget);
  if (parsed === undefined)
    throw budget.values < 0 ? tooMany(`${MAX_VALUES} values in its results`) : invalid();
  return parsed.value;
}

function tooMany(what: string): SandboxdError {
  return new SandboxdError(`the code has more than ${what}`);
}

function invalid(): SandboxdError {
  return new SandboxdError('the code interpreter of the sandbox gave an invalid answer');
}

function toRefusal(text: string): SandboxdError {
  const { code, message } = (parse(text) ?? {}) as Line;
  if (typeof code !== 'number' || typeof message !== 'string') return invalid();
  return new CodeError(message, code);
}

function toContext(value: unknown): CodeContextInfo {
  const { id, language, cwd } = (value ?? {}) as Line;
  if (typeof id !== 'string' || typeof language !== 'string' || typeof cwd !== 'string') throw invalid();
  return { id, language, cwd };
}

const TEXTS = ['text', 'html', 'markdown', 'latex', 'svg', 'javascript', 'png', 'jpeg', 'pdf'] as const;
const OBJECTS = ['data', 'chart', 'extra'] as const;

function isObject(value: unknown): value is Line {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function areLists(columns: Line): boolean {
  return Object.values(columns).every((column) => Array.isArray(column));
}

/** SandboxdError if the line has no such text. */
function textOf(line: Line, name: string): string {
  const text = line[name];
  if (typeof text !== 'string') throw invalid();
  return text;
}

function toResult(line: Line): CodeResult {
  const texts = TEXTS.filter((name) => typeof line[name] === 'string').map((name) => [name, line[name]]);
  const objects = OBJECTS.filter((name) => isObject(line[name]) && (name !== 'data' || areLists(line[name])));
  return {
    isMain: line.is_main_result === true,
    ...Object.fromEntries(texts),
    ...Object.fromEntries(objects.map((name) => [name, line[name]])),
    ...(line.json !== undefined && { json: line.json }),
  };
}

/** The lines of a cell so far. */
class Gathered {
  readonly #events: Pick<CodeOptions, 'onStdout' | 'onStderr' | 'onResult'>;
  readonly #results: CodeResult[] = [];
  readonly #printed = { stdout: [] as string[], stderr: [] as string[] };
  #error: CodeFailure | undefined;
  #count: number | undefined;
  #isOver = false;

  constructor(events: Pick<CodeOptions, 'onStdout' | 'onStderr' | 'onResult'>) {
    this.#events = events;
  }

  push(value: unknown): void {
    if (!isObject(value)) throw invalid();
    const line = value;
    if (line.type === 'stdout' || line.type === 'stderr') {
      const text = textOf(line, 'text');
      this.#printed[line.type].push(text);
      if (line.type === 'stdout') this.#events.onStdout?.(text);
      else this.#events.onStderr?.(text);
    }
    if (line.type === 'result') {
      const result = toResult(line);
      if (this.#results.push(result) > MAX_RESULTS) throw tooMany(`${MAX_RESULTS} results`);
      this.#events.onResult?.(result);
    }
    if (line.type === 'error')
      this.#error = {
        name: textOf(line, 'name'),
        value: textOf(line, 'value'),
        traceback: textOf(line, 'traceback'),
      };
    if (line.type === 'number_of_executions' && typeof line.execution_count === 'number')
      this.#count = line.execution_count;
    if (line.type === 'end_of_execution') this.#isOver = true;
  }

  /** SandboxdError if the answer was cut. */
  end(): Execution {
    if (!this.#isOver) throw new SandboxdError('the code interpreter ended before the code did');
    return {
      text: this.#results.find(({ isMain }) => isMain)?.text,
      results: this.#results,
      stdout: this.#printed.stdout.join(''),
      stderr: this.#printed.stderr.join(''),
      error: this.#error,
      executionCount: this.#count,
    };
  }
}
