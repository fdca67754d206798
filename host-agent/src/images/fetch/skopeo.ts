// Images from registries and archives, by skopeo: it knows the host's credentials, mirrors, proxies, certificates and policy.
import { realpath } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { AppError, errnoOf } from '../../lib/errors.ts';
import { plainEnvironment, startProgram } from '../../lib/programs.ts';

export type SkopeoOptions = {
  /**
   * The only directory that it may write to; what it needs for a while goes into `scratch` beneath, where it runs: a name of an image
   * in a directory has the path up to its first colon.
   */
  readonly dir: string;
  readonly scratch: string;
  /** Of one file. */
  readonly maxFileBytes: number;
  /** CPU time, of all its threads; absent: a registry's pace bounds it. */
  readonly maxCpuS?: number | undefined;
  readonly args: readonly string[];
  /** Each line that it writes about what it does. */
  readonly onLine?: ((line: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
};

/** Skopeo said why not; `message` is its own last sentence. */
export class SkopeoError extends Error {
  override readonly name = 'SkopeoError';
}

/** What of the daemon's environment names credentials, proxies and certificates of the host's administrator. */
const KEPT_VARIABLES = [
  'HOME',
  'XDG_RUNTIME_DIR',
  'XDG_CONFIG_HOME',
  'REGISTRY_AUTH_FILE',
  'DOCKER_CONFIG',
  'CONTAINERS_REGISTRIES_CONF',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]),
];
/** Root's directory, where the daemon has no HOME: services often have none. */
const HOME = '/root';
const TAIL_LINES = 4;
const MAX_MESSAGE_CHARS = 600;
/** What it holds of documents is the source's choice; it needs a tenth of this. */
const MAX_MEMORY_BYTES = 2 ** 30;

/** Rejects with SkopeoError, with AppError unsupported where a program is missing, or with the signal's reason. */
export async function runSkopeo(options: SkopeoOptions): Promise<string[]> {
  const { dir, scratch, maxFileBytes, maxCpuS, args, onLine, signal } = options;
  signal?.throwIfAborted();
  const limits = ['prlimit', `--data=${MAX_MEMORY_BYTES}`, `--fsize=${maxFileBytes}`, '--core=0'];
  if (maxCpuS !== undefined) limits.push(`--cpu=${maxCpuS}`);
  // Bubblewrap makes what it mounts on: not behind a link of the host's root, which is read-only by then.
  const real = await realpath(dir);
  signal?.throwIfAborted();
  const child = startProgram('bwrap', [...confinement(real), ...limits, 'skopeo', ...args], {
    cwd: scratch,
    env: { ...plainEnvironment(), HOME, ...environment(), TMPDIR: scratch },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  // All of its group: killed alone at the wrong moment, it would leave a child that waits for it for ever.
  const kill = () => killGroup(child.pid);
  signal?.addEventListener('abort', kill);
  const output: string[] = [];
  const tail: string[] = [];
  let crash: string | undefined;
  createInterface(child.stdout).on('line', (line) => {
    output.push(line);
    onLine?.(line);
  });
  createInterface(child.stderr).on('line', (line) => {
    if (!line.includes(' level=debug ')) tail.push(line);
    if (tail.length > TAIL_LINES) tail.shift();
    crash ??= /^(?:SIG[A-Z]+|fatal error|panic): .*/.exec(line)?.[0];
    onLine?.(line);
  });
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    });
    signal?.throwIfAborted();
    if (code !== 0)
      throw new SkopeoError(crash === undefined ? explain(tail, maxFileBytes) : explainCrash(crash));
    return output;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw programMissing('bwrap', 'bubblewrap');
    throw error;
  } finally {
    signal?.removeEventListener('abort', kill);
  }
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch (error) {
    // All of it has ended already, and only the last of its output is awaited.
    if (errnoOf(error) !== 'ESRCH') throw error;
  }
}

/** It sees the host as it is, but writes nowhere else, has no capability, and sees no other process. */
function confinement(dir: string): string[] {
  return [
    '--die-with-parent',
    '--new-session',
    ...['--ro-bind', '/', '/'],
    ...['--dev', '/dev'],
    ...['--proc', '/proc'],
    ...['--bind', dir, dir],
    ...['--cap-drop', 'ALL'],
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-uts',
    '--',
  ];
}

function environment(): Record<string, string> {
  return Object.fromEntries(
    KEPT_VARIABLES.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** `time="…" level=fatal msg="…"` is how it ends; what comes before may be warnings. */
function explain(tail: readonly string[], maxFileBytes: number): string {
  const last = tail.findLast((line) => line.includes('level=fatal')) ?? tail.at(-1) ?? 'it said nothing';
  if (/failed to execute skopeo: No such file/.test(last)) throw programMissing('skopeo', 'skopeo');
  const quoted = / msg=("(?:[^"\\]|\\.)*")/.exec(last)?.[1];
  if (/: file too large\b/.test(last)) return `a blob has more than ${maxFileBytes} bytes`;
  return explainUnknown(withoutBody(unquote(quoted ?? last))).slice(0, MAX_MESSAGE_CHARS);
}

/** What its sentence does not tell: it goes by the content type of a manifest, and by SHA-256. */
function explainUnknown(text: string): string {
  if (/unsupported schema version 2$/.test(text))
    return `${text}: the server sent the manifest with a Content-Type that is of no manifest`;
  const [, algorithm] =
    /(?:Internal error writing blob (?=\w+:)|\/blobs\/(?=\w+\/))(sha(?:384|512))/.exec(text) ?? [];
  return algorithm === undefined
    ? text
    : `its blobs are named by ${algorithm}; only those named by sha256 are taken`;
}

/** What a server sent in place of a document is not shown: a registry can send us to one that only this host reaches. */
function withoutBody(text: string): string {
  return text
    .replace(/(error parsing HTTP \d+ response body): .*/s, '$1')
    .replace(/(StatusCode: \d+), .*/s, '$1')
    .replace(/invalid character '.*/s, 'what it sent is not JSON')
    .replaceAll(/\s+/g, ' ');
}

function explainCrash(crash: string): string {
  if (crash.startsWith('SIGXCPU')) return 'to unpack it takes more time than its size allows';
  if (/memory/.test(crash)) return 'its documents are too large to be those of an image';
  return `skopeo ended with ${crash}`;
}

function unquote(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

function programMissing(program: string, debianPackage: string): AppError {
  return new AppError(
    'unsupported',
    `images need the program ${program}, which was not found; as root: apt-get install ${debianPackage}`,
  );
}
