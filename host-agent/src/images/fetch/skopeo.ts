// Runs skopeo, which fetches images from registries and archives with the host's credentials, mirrors, proxies,
// certificates and policy.
import { realpath } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { AppError, errnoOf } from '../../lib/errors.ts';
import { plainEnvironment, startProgram } from '../../lib/programs.ts';

type SkopeoOptions = {
  /**
   * The only writable directory. Temporary files go into `scratch` below it, which is the working directory: skopeo
   * cuts the path of an image in a directory at its first colon, so paths must be relative.
   */
  readonly dir: string;
  readonly scratch: string;
  /** Size limit of each file. */
  readonly maxFileBytes: number;
  /** Limit of CPU time over all threads; absent: only the registry's speed bounds it. */
  readonly maxCpuS?: number | undefined;
  readonly args: readonly string[];
  /** Without a network. */
  readonly isOffline?: boolean | undefined;
  /** Called with each line of output. */
  readonly onLine?: ((line: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
};

/** Skopeo failed; `message` is the last sentence of its error. */
export class SkopeoError extends Error {
  override readonly name = 'SkopeoError';
}

/** Variables of the daemon's environment that name the administrator's credentials, proxies and certificates. */
const PASSED_VARIABLES = [
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
/** Root's home, used when the daemon has no HOME, as is common for services. */
const HOME = '/root';
const TAIL_LINES = 4;
const MAX_MESSAGE_CHARS = 600;
/** The source decides how much skopeo keeps in memory; a tenth of this is enough for real images. */
const MAX_MEMORY_BYTES = 2 ** 30;

/** Rejects with SkopeoError, AppError unsupported when a program is missing, or the signal's reason. */
export async function runSkopeo(options: SkopeoOptions): Promise<string[]> {
  const { dir, scratch, maxFileBytes, maxCpuS, isOffline = false, args, onLine, signal } = options;
  signal?.throwIfAborted();
  const limits = ['prlimit', `--data=${MAX_MEMORY_BYTES}`, `--fsize=${maxFileBytes}`, '--core=0'];
  if (maxCpuS !== undefined) limits.push(`--cpu=${maxCpuS}`);
  // Bubblewrap creates its mount points, which fails behind a symbolic link in the read-only root.
  const real = await realpath(dir);
  signal?.throwIfAborted();
  const child = startProgram('bwrap', [...confinement(real, isOffline), ...limits, 'skopeo', ...args], {
    cwd: scratch,
    env: { ...plainEnvironment(), HOME, ...environment(), TMPDIR: scratch },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  // Kills the whole process group: bubblewrap killed alone at the wrong moment leaves a child that waits for it
  // forever.
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
    // The group has ended; only its last output is pending.
    if (errnoOf(error) !== 'ESRCH') throw error;
  }
}

/**
 * Skopeo sees the host's filesystem read-only, can write only to `dir`, has no capabilities and sees no other process.
 */
function confinement(dir: string, isOffline: boolean): string[] {
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
    ...(isOffline ? ['--unshare-net'] : []),
    '--',
  ];
}

function environment(): Record<string, string> {
  return Object.fromEntries(
    PASSED_VARIABLES.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** The final error has the form `time="…" level=fatal msg="…"`; earlier lines may be warnings. */
function explain(tail: readonly string[], maxFileBytes: number): string {
  const last =
    tail.findLast((line) => line.includes('level=fatal')) ?? tail.at(-1) ?? 'skopeo reported no error';
  if (/failed to execute skopeo: No such file/.test(last)) throw programMissing('skopeo', 'skopeo');
  const quoted = / msg=("(?:[^"\\]|\\.)*")/.exec(last)?.[1];
  if (/: file too large\b/.test(last)) return `a blob has more than ${maxFileBytes} bytes`;
  return explainUnknown(withoutBody(unquote(quoted ?? last))).slice(0, MAX_MESSAGE_CHARS);
}

/** Adds the cause that skopeo's message omits: it requires a manifest's content type, and SHA-256 digests. */
function explainUnknown(text: string): string {
  if (/unsupported schema version 2$/.test(text))
    return `${text}: the server sent the manifest with a Content-Type that is of no manifest`;
  const [, algorithm] =
    /(?:Internal error writing blob (?=\w+:)|\/blobs\/(?=\w+\/))(sha(?:384|512))/.exec(text) ?? [];
  return algorithm === undefined
    ? text
    : `its blobs are named by ${algorithm}; only those named by sha256 are taken`;
}

/**
 * Removes the response body from the message: a registry can redirect the daemon to an address that only this host
 * reaches (SSRF).
 */
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
