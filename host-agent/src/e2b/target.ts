// What a request of a client of E2B is for: a port of a sandbox, envd, or the control plane.
import type { IncomingMessage } from 'node:http';
import { toPath } from '../http/serve-routes.ts';
import { malformed, readHosts } from '../http/server/request-check.ts';
import { ADDRESS_HEADERS, type Addresses, type Sought } from '../ingress/index.ts';

/** The port of envd in E2B's sandboxes. Nothing listens there; the front answers. */
export const ENVD_PORT = 49983;
/** Paths of E2B's interface that are known, but not served. */
export const KNOWN =
  /^\/(?:v\d\/)?(?:sandboxes|snapshots|templates|volumes|volumecontent|secrets|teams|nodes|admin|access-tokens|api-keys)(?:\/|$)/;
/** Of envd, where a request may name no sandbox. */
const ENVD_PATHS: ReadonlySet<string> = new Set(['/files', '/health']);
/** That a browser's preflight has too, which has no header that names the sandbox. */
const ENVD_PREFLIGHTS: ReadonlySet<string> = new Set(['/envs', '/metrics']);
export const RPC = /^\/(?:process\.Process|filesystem\.Filesystem)\//;

export type Target = {
  readonly kind: 'port' | 'envd' | 'control';
  readonly path: string;
  /** Of a port, and of envd where the request names the sandbox. */
  readonly sought?: Sought | undefined;
};

/** HttpError malformed. */
export function findTarget(request: IncomingMessage, addresses: Addresses): Target {
  const sought = findSought(request, addresses);
  const path = toPath(request.url);
  if (sought !== undefined && sought.port !== ENVD_PORT) return { kind: 'port', path, sought };
  // URLs of files that are signed name no sandbox.
  const isEnvd =
    (sought !== undefined && !isForControl(request, path)) ||
    ENVD_PATHS.has(path) ||
    (request.method === 'OPTIONS' && (ENVD_PREFLIGHTS.has(path) || RPC.test(path)));
  return isEnvd ? { kind: 'envd', path, sought } : { kind: 'control', path };
}

/** HttpError malformed. */
export function hostOf(request: IncomingMessage): string {
  const hosts = readHosts(request);
  if (hosts instanceof Error) throw hosts;
  return hosts[0] ?? '';
}

/** Of the front, as the client of a request has reached it. */
export function toBaseUrl(request: IncomingMessage | undefined, scheme: Addresses['scheme']): string {
  const { host = 'localhost' } = request?.headers ?? {};
  const isEncrypted = (request?.socket as { readonly encrypted?: boolean } | undefined)?.encrypted;
  // A proxy in front of the daemon may have the certificate of its name.
  const isName = /[a-z]/i.test(host) && !host.startsWith('localhost') && !host.startsWith('[');
  return `${isEncrypted || (isName && scheme === 'https') ? 'https' : 'http'}://${host}`;
}

function findSought(request: IncomingMessage, addresses: Addresses): Sought | undefined {
  const host = hostOf(request);
  const sought = addresses.find(host, request.headers);
  const byName = addresses.find(host, {});
  const names = ADDRESS_HEADERS.filter((name) => request.headers[name] !== undefined);
  if (names.length > 0) {
    // The header of an SDK is there beside a host name, too.
    const byHeader = addresses.find('localhost', request.headers);
    if (byHeader === undefined || (byName !== undefined && !isSame(byName, byHeader)))
      throw malformed(`${names.join(' and ')} name no port of a sandbox, or another one than the host name`);
  }
  return sought;
}

/** An earlier Python SDK sends the headers of a sandbox with a request of the control plane. */
function isForControl({ headers }: IncomingMessage, path: string): boolean {
  const isNamed = ADDRESS_HEADERS.some((name) => headers[name] !== undefined);
  return isNamed && headers['x-api-key'] !== undefined && KNOWN.test(path);
}

function isSame(a: Sought, b: Sought): boolean {
  return a.port === b.port && 'id' in a && 'id' in b && a.id === b.id;
}
