// Values that the daemon reads from where its operator keeps them: credentials of systemd, files, commands. Clients
// name a source; only the operator says what it is.
import type { ChildProcess } from 'node:child_process';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { MAX_SECRET_CHARS, MIN_SECRET_CHARS, type SecretSource } from '@sandboxd/api';
import { AppError, errnoOf } from '../lib/errors.ts';
import { coversPattern } from '../lib/host-patterns.ts';
import { startProgram } from '../lib/programs.ts';

/** `path`: empty for a credential. `hosts`: the only ones that may get the value; absent: the secret names them. */
export type SourceEntry = { readonly path: string; readonly hosts?: readonly string[] | undefined };

/** By name. One with a tenant before it, as in `acme/github`, is for that tenant; others are for keys without one. */
export type SourceNames = ReadonlyMap<string, SourceEntry>;

export type SourceOptions = {
  readonly files: SourceNames;
  readonly commands: SourceNames;
  /** Names of systemd's credentials. */
  readonly credentials: SourceNames;
  /** `$CREDENTIALS_DIRECTORY`. */
  readonly credentialsDir?: string | undefined;
};

const COMMAND_TIMEOUT_MS = 10_000;
/** How long a value that was read is used: a rotation is seen within this time. */
export const SOURCE_TTL_MS = 60_000;
/** A line end of an editor or a program. */
const MAX_BYTES = MAX_SECRET_CHARS + 2;
const SPACE = 0x20;
const TILDE = 0x7e;

export class SecretSources {
  readonly #options: SourceOptions;

  constructor(options: SourceOptions) {
    this.#options = options;
  }

  /**
   * To which the operator has bound it; undefined: to none. AppError forbidden if the operator has none of that name
   * for the scope. `scope`: tenant, or ''.
   */
  hostsOf(scope: string, source: SecretSource): readonly string[] | undefined {
    return this.#find(scope, source).hosts;
  }

  /** AppError forbidden for hosts that the operator has not given to the source. */
  assertBound(scope: string, source: SecretSource, hosts: readonly string[]): void {
    const { kind, name, hosts: bound } = this.#find(scope, source);
    const beyond = bound === undefined ? -1 : hosts.findIndex((host) => !isWithin(bound, host));
    if (beyond === -1) return;
    throw new AppError(
      'forbidden',
      `the operator has bound ${kind} ${name} to ${bound?.join(', ')}, and hosts[${beyond}] is not among them`,
    );
  }

  /** The caller wipes it. AppError `internal`, whose message has no value. */
  async read(scope: string, source: SecretSource): Promise<Buffer> {
    const { kind, name, path } = this.#find(scope, source);
    try {
      const bytes =
        kind === 'command'
          ? await readCommand(path, { maxBytes: MAX_BYTES, timeoutMs: COMMAND_TIMEOUT_MS })
          : await readLimited(path);
      try {
        return toValue(bytes);
      } finally {
        bytes.fill(0);
      }
    } catch (cause) {
      // What a command wrote may have the value, so its error is not shown.
      const why =
        cause instanceof RangeError ? cause.message : kind === 'command' ? 'it failed' : describe(cause);
      throw new AppError('internal', `cannot read the value of a secret from ${kind} ${name}: ${why}`);
    }
  }

  #find(scope: string, { file, command, credential }: SecretSource) {
    const { files, commands, credentials, credentialsDir } = this.#options;
    const [kind, name = '', names] =
      file !== undefined
        ? (['file', file, files] as const)
        : command !== undefined
          ? (['command', command, commands] as const)
          : (['credential', credential, credentials] as const);
    const entry = names.get(scope === '' ? name : `${scope}/${name}`);
    if (entry === undefined)
      throw new AppError(
        'forbidden',
        `the operator has no such ${kind} for secrets of ${scope === '' ? 'keys without a tenant' : `tenant ${scope}`}; --secret-${kind} names them`,
      );
    const path = kind === 'credential' ? join(credentialsDir ?? '/nonexistent', name) : entry.path;
    return { kind, name, path, hosts: entry.hosts };
  }
}

function isWithin(bound: readonly string[], host: string): boolean {
  return bound.some((allowed) => coversPattern(allowed, host));
}

async function readLimited(path: string): Promise<Buffer> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const { size } = await file.stat();
    if (size > MAX_BYTES) throw new RangeError(`it has ${size} bytes`);
    const bytes = Buffer.alloc(MAX_BYTES);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
    return bytes.subarray(0, bytesRead);
  } finally {
    await file?.close();
  }
}

/** Without the path, which clients do not see. */
function describe(cause: unknown): string {
  return errnoOf(cause) ?? 'it failed';
}

/**
 * What a command of the operator prints. It and all that it started end with it or with its time. RangeError for more
 * than `maxBytes`; other errors do not say what it wrote. The caller wipes the bytes.
 */
export function readCommand(
  path: string,
  { maxBytes, timeoutMs }: { readonly maxBytes: number; readonly timeoutMs: number },
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const child = startProgram(path, [], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
  const parts: Buffer[] = [];
  let size = 0;
  const fail = (error: Error): void => {
    killGroup(child);
    child.stdout?.destroy();
    reject(error);
  };
  const timer = setTimeout(() => fail(new Error('it took too long')), timeoutMs);
  child.stdout?.on('data', (part: Buffer) => {
    size += part.length;
    if (size > maxBytes) fail(new RangeError(`it has more than ${maxBytes} bytes`));
    else parts.push(part);
  });
  child.on('error', fail);
  child.on('close', (code) => {
    if (code === 0) resolve(Buffer.concat(parts));
    else reject(new Error('it failed'));
  });
  return promise.finally(() => {
    clearTimeout(timer);
    for (const part of parts) part.fill(0);
  });
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/**
 * A value that a header can have, and that is long enough to be found in answers: a copy without one line end, as
 * programs and editors add it. RangeError that does not show it.
 */
function toValue(bytes: Buffer): Buffer {
  const end = bytes.at(-1) === 0x0a ? (bytes.at(-2) === 0x0d ? -2 : -1) : bytes.length;
  const value = Buffer.from(bytes.subarray(0, end));
  const isLong = value.length >= MIN_SECRET_CHARS && value.length <= MAX_SECRET_CHARS;
  const isPrintable = value.every((byte) => byte >= SPACE && byte <= TILDE);
  if (isLong && isPrintable && value[0] !== SPACE && value.at(-1) !== SPACE) return value;
  value.fill(0);
  throw new RangeError(
    `it is not ${MIN_SECRET_CHARS} to ${MAX_SECRET_CHARS} printable ASCII characters, without spaces at its ends`,
  );
}
