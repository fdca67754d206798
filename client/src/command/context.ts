// Selects the daemon: contexts in a private file, overridden by environment variables.
import { X509Certificate } from 'node:crypto';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { UsageError } from '@sandboxd/api/command-line';
import { Client } from '../client.ts';
import { SandboxdError } from '../errors.ts';
import { HeldDirectory } from '../platform/held-directory.ts';
import { putInPlace } from '../platform/whole-file.ts';

const DEFAULT_HOST = 'http://127.0.0.1:7878';
const PRIVATE = 0o600;
const OTHERS = 0o077;

export type Context = {
  readonly host: string;
  readonly apiKey?: string;
  /** Path of a file with CA certificates. */
  readonly ca?: string;
};

type Contexts = {
  readonly current?: string;
  readonly contexts: Readonly<Record<string, Context>>;
};

type Environment = Readonly<Record<string, string | undefined>>;

function contextsPath(env: Environment = process.env): string {
  return join(env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'sandbox', 'contexts.json');
}

export function readContexts(path = contextsPath(), env: Environment = process.env): Contexts {
  let fd: number | undefined;
  try {
    fd = openSync(path, 'r');
    assertOwn(fstatSync(fd).uid, env);
    const read = toContexts(JSON.parse(readFileSync(fd, 'utf8')));
    assertPrivate(fstatSync(fd).mode, read);
    return read;
  } catch (error) {
    // If a parent of the path is not a directory, the file does not exist either.
    if (/^(?:ENOENT|ENOTDIR)$/.test((error as { code?: string }).code ?? '')) return { contexts: {} };
    throw new SandboxdError(`${path} cannot be read: ${(error as Error).message}`);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** Validates the file, because users may edit it. */
function toContexts(value: unknown): Contexts {
  const { current, contexts } = (value ?? {}) as { current?: unknown; contexts?: unknown };
  const isText = (each: unknown) => each === undefined || typeof each === 'string';
  const isContext = (each: Partial<Context> | null) =>
    typeof each?.host === 'string' && isText(each.apiKey) && isText(each.ca);
  const isValid =
    typeof contexts === 'object' &&
    contexts !== null &&
    Object.values(contexts).every(isContext) &&
    isText(current);
  if (!isValid)
    throw new Error('it is not what `sandbox context set` writes; remove it and set the contexts again');
  return value as Contexts;
}

/** Its owner decides which daemon gets the commands. sudo may leave the home of its caller. */
function assertOwn(uid: number, { SUDO_UID }: Environment): void {
  const own = process.getuid?.();
  if (own === undefined || uid === 0 || uid === own || String(uid) === SUDO_UID) return;
  throw new Error(
    `it belongs to another user (uid ${uid}); \`chown\` it to yourself once you have checked it`,
  );
}

function assertPrivate(mode: number, { contexts }: Contexts): void {
  if ((mode & OTHERS) === 0 || process.platform === 'win32') return;
  if (Object.values(contexts).every(({ apiKey }) => apiKey === undefined)) return;
  throw new Error(
    `it has keys in it and others may read it; \`chmod 600\` it, and revoke keys that others may know`,
  );
}

/** Own properties only: every object inherits names such as `toString`. */
export function findContext({ contexts }: Contexts, name: string): Context | undefined {
  return Object.hasOwn(contexts, name) ? contexts[name] : undefined;
}

/**
 * Creates the file with its final mode, so that other users can never read it. With sudo, the directory may belong to
 * another user.
 */
export async function writeContexts(contexts: Contexts, path = contextsPath()): Promise<void> {
  await using directory = await HeldDirectory.ensure(dirname(path), 0o700);
  const text = Buffer.from(`${JSON.stringify(contexts, null, 2)}\n`);
  await putInPlace(directory, basename(path), (partial) =>
    writeFile(partial, text, { flag: 'wx', mode: PRIVATE }),
  );
}

/** Precedence: flag, variable, current context. An explicit host does not use the key and CA of a context. */
export function resolveContext(
  flags: {
    readonly host?: string | undefined;
    readonly context?: string | undefined;
    readonly ca?: string | undefined;
  },
  env: Environment = process.env,
): Context {
  const host = flags.host ?? (flags.context === undefined ? env.SANDBOXD_HOST || undefined : undefined);
  const apiKey = env.SANDBOXD_API_KEY || undefined;
  const ca = flags.ca ?? (env.SANDBOXD_CA || undefined);
  const overrides = { ...(apiKey !== undefined && { apiKey }), ...(ca !== undefined && { ca }) };
  if (host !== undefined) return { host, ...overrides };
  const known = readContexts(contextsPath(env));
  const name = flags.context ?? known.current;
  const context = name === undefined ? { host: DEFAULT_HOST } : findContext(known, name);
  if (context === undefined)
    throw new UsageError(`there is no context ${JSON.stringify(name)}; \`sandbox context\` lists them`);
  return { ...context, ...overrides };
}

/** SandboxdError for an invalid address or certificate file. */
export function toClient({ host, apiKey = '', ca }: Context): Client {
  return new Client({ host, apiKey, ...(ca !== undefined && { ca: readCertificates(ca) }) });
}

/** Validated here: an invalid file would otherwise only appear as an untrusted daemon. */
function readCertificates(path: string): string {
  try {
    const text = readFileSync(path, 'utf8');
    new X509Certificate(text);
    return text;
  } catch (error) {
    throw new SandboxdError(`${path} has no certificates to trust, in PEM: ${(error as Error).message}`);
  }
}
