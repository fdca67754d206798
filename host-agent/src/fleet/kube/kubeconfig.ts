// Reads a kubeconfig: the server of its current context, and how to prove who we are to it.
import { dirname, resolve } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { AppError, toError } from '../../lib/errors.ts';
import { readTrustedFile } from '../../lib/private-file.ts';

export type KubeAccess = {
  readonly server: URL;
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Read at each request, because a token in a file is replaced while the process runs. */
  readonly token?: (() => string) | undefined;
};

/** Such as those of `kubeadm token create`. With one, a host may ask for an identity, and do nothing else. */
const BOOTSTRAP_TOKEN = /^[a-z0-9]{6}\.[a-z0-9]{16}$/;

/**
 * Whether it only serves to get an identity: it has a bootstrap token, or nothing at all any more. AppError
 * invalid_argument for a token file that cannot be read.
 */
export function isForBootstrap({ cert, token }: KubeAccess): boolean {
  return cert === undefined && (token === undefined || BOOTSTRAP_TOKEN.test(token()));
}

/** A larger file is not a kubeconfig. */
const MAX_BYTES = 2 ** 20;
const MAX_ALIASES = 100;

const cluster = z.object({
  server: z.string(),
  'certificate-authority': z.string().optional(),
  'certificate-authority-data': z.string().optional(),
  'insecure-skip-tls-verify': z.boolean().optional(),
});
const user = z.object({
  'client-certificate': z.string().optional(),
  'client-certificate-data': z.string().optional(),
  'client-key': z.string().optional(),
  'client-key-data': z.string().optional(),
  token: z.string().optional(),
  tokenFile: z.string().optional(),
  exec: z.unknown().optional(),
  'auth-provider': z.unknown().optional(),
  username: z.string().optional(),
});
const kubeconfig = z.object({
  'current-context': z.string(),
  contexts: z.array(
    z.object({ name: z.string(), context: z.object({ cluster: z.string(), user: z.string() }) }),
  ),
  clusters: z.array(z.object({ name: z.string(), cluster })),
  users: z.array(z.object({ name: z.string(), user })),
});

/** YAML or JSON. AppError invalid_argument with the file, what is wrong and what to do. */
export function readKubeconfig(path: string): KubeAccess {
  const fail = (what: string, cause?: unknown): AppError =>
    new AppError('invalid_argument', `the kubeconfig ${path} cannot be used: ${what}`, { cause });
  const file = readText(path, fail);
  const checked = kubeconfig.safeParse(parseText(file, fail));
  if (!checked.success) {
    const [issue] = checked.error.issues;
    throw fail(`${issue?.path.join('.') || 'it'} is not valid: ${issue?.message}`);
  }
  const { 'current-context': current, contexts, clusters, users } = checked.data;
  const context = contexts.find(({ name }) => name === current)?.context;
  const at = clusters.find(({ name }) => name === context?.cluster)?.cluster;
  const as = users.find(({ name }) => name === context?.user)?.user;
  if (at === undefined || as === undefined)
    throw fail(`its current-context ${JSON.stringify(current)} has no cluster or no user`);
  if (!URL.canParse(at.server)) throw fail(`the server ${JSON.stringify(at.server)} is not a URL`);
  const server = new URL(at.server);
  if (server.protocol !== 'https:' && !isLoopbackUrl(server))
    throw fail(
      `the server ${at.server} is not reached by https, so that anybody on the way could read the token`,
    );
  if (at['insecure-skip-tls-verify'] === true)
    throw fail('insecure-skip-tls-verify is set; give certificate-authority instead');
  if (as.exec !== undefined || as['auth-provider'] !== undefined)
    throw fail(
      'its user gets credentials from a plug-in (exec, auth-provider); give a certificate, a token or tokenFile',
    );
  if (as.username !== undefined)
    throw fail('its user has a password, which the API server does not take; give a token');
  const dir = dirname(path);
  const pem = (data: string | undefined, name: string | undefined): string | undefined =>
    data !== undefined
      ? Buffer.from(data, 'base64').toString('latin1')
      : name === undefined
        ? undefined
        : readText(resolve(dir, name), fail);
  const tokenFile = as.tokenFile === undefined ? undefined : resolve(dir, as.tokenFile);
  const cert = pem(as['client-certificate-data'], as['client-certificate']);
  const key = pem(as['client-key-data'], as['client-key']);
  if ((cert === undefined) !== (key === undefined))
    throw fail('a client certificate and its key go together');
  return {
    server,
    ca: pem(at['certificate-authority-data'], at['certificate-authority']),
    ...{ cert, key },
    token: toToken(as.token, tokenFile, fail),
  };
}

function toToken(
  token: string | undefined,
  file: string | undefined,
  fail: (what: string, cause: unknown) => AppError,
): (() => string) | undefined {
  if (file !== undefined) return () => readText(file, fail).trim();
  return token === undefined ? undefined : () => token;
}

function isLoopbackUrl({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

function readText(path: string, fail: (what: string, cause: unknown) => AppError): string {
  try {
    return readTrustedFile(path, MAX_BYTES).toString('latin1');
  } catch (cause) {
    throw fail(toError(cause).message, cause);
  }
}

function parseText(text: string, fail: (what: string, cause: unknown) => AppError): unknown {
  try {
    return parse(text, { maxAliasCount: MAX_ALIASES });
  } catch (cause) {
    throw fail(toError(cause).message.split('\n', 1)[0] ?? '', cause);
  }
}
