// Which daemon: contexts in a file that only its owner reads, and variables that win over it.
import { X509Certificate } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { Client } from '../client.ts';
import { SandboxdError } from '../errors.ts';
import { UsageError } from './verb.ts';

const DEFAULT_HOST = 'http://127.0.0.1:7878';
const PRIVATE = 0o600;

export type Context = {
  readonly host: string;
  readonly apiKey?: string;
  /** Path of a file of certificates to trust. */
  readonly ca?: string;
};

export type Contexts = {
  readonly current?: string;
  readonly contexts: Readonly<Record<string, Context>>;
};

type Environment = Readonly<Record<string, string | undefined>>;

export function contextsPath(env: Environment = process.env): string {
  return join(env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'sandbox', 'contexts.json');
}

export function readContexts(path = contextsPath()): Contexts {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Contexts;
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return { contexts: {} };
    throw new SandboxdError(`${path} cannot be read: ${(error as Error).message}`);
  }
}

/** There is never a moment at which others could read it. */
export function writeContexts(contexts: Contexts, path = contextsPath()): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const fresh = `${path}.${process.pid}`;
  writeFileSync(fresh, `${JSON.stringify(contexts, null, 2)}\n`, { mode: PRIVATE });
  chmodSync(fresh, PRIVATE);
  renameSync(fresh, path);
}

/** A flag wins over a variable, a variable over the context in use. A host that is given has nothing of a context's key and CA. */
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
  const given = { ...(apiKey !== undefined && { apiKey }), ...(ca !== undefined && { ca }) };
  if (host !== undefined) return { host, ...given };
  const { current, contexts } = readContexts(contextsPath(env));
  const name = flags.context ?? current;
  const context = name === undefined ? { host: DEFAULT_HOST } : contexts[name];
  if (context === undefined)
    throw new UsageError(`there is no context ${JSON.stringify(name)}; \`sandbox context\` lists them`);
  return { ...context, ...given };
}

/** SandboxdError for what is no address, or no file of certificates. */
export function toClient({ host, apiKey = '', ca }: Context): Client {
  return new Client({ host, apiKey, ...(ca !== undefined && { ca: readCertificates(ca) }) });
}

/** Text that is none would only show as a daemon that is not trusted. */
function readCertificates(path: string): string {
  try {
    const text = readFileSync(path, 'utf8');
    new X509Certificate(text);
    return text;
  } catch (error) {
    throw new SandboxdError(`${path} has no certificates to trust, in PEM: ${(error as Error).message}`);
  }
}
