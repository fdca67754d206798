// Who may use ports of sandboxes through this front. As in E2B, ports are public unless the create asked for a traffic
// token; sandboxes that were made otherwise have no ports here.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AccessRequest, Addresses, Grant, PortHost, SandboxPorts, Sought } from '../ingress/index.ts';
import { assertOperation, mayDo, OPERATOR, type Principal } from '../keys/index.ts';
import { isAppError } from '../lib/errors.ts';
import { E2bError, SandboxGoneError, toE2bAnswer } from './errors.ts';
import { areEqual, type SandboxRecord, type SandboxRecords, toE2bId } from './sandbox-records.ts';

const ACCESS_TOKEN = 'x-access-token';
const TRAFFIC_TOKEN = 'e2b-traffic-access-token';
/** Headers with what is for this front alone. */
export const TOKEN_HEADERS: readonly string[] = [ACCESS_TOKEN, TRAFFIC_TOKEN];
/** Where the code interpreter listens. Code is for holders of the access token, as commands are. */
const CODE_PORT = 49_999;
/** Requests that the SDKs send without it, and that take nothing away. */
const WITHOUT_TOKEN: ReadonlySet<string> = new Set(['GET /health', 'GET /contexts', 'POST /contexts']);
/** Those that they send with the traffic token alone. */
const WITH_TRAFFIC_TOKEN = /^(?:DELETE \/contexts\/[^/?]+|POST \/contexts\/[^/?]+\/restart)$/;

type SoughtById = Extract<Sought, { readonly id: string }>;

export class PortAccess {
  readonly #host: PortHost;
  readonly #records: SandboxRecords;

  constructor(host: PortHost, records: SandboxRecords) {
    this.#host = host;
    this.#records = records;
  }

  /** E2bError 403, 502. */
  async admit({ request, sought }: AccessRequest): Promise<Grant> {
    if (sought === undefined || !('id' in sought)) throw new SandboxGoneError('');
    const { id, port } = sought;
    const found = this.#host.find(OPERATOR, sought);
    const record = this.#records.find(id);
    if (found === undefined || record === undefined) throw new SandboxGoneError(toE2bId(id));
    this.#assertAllowed(request, id, record);
    const token =
      port === CODE_PORT && needsToken(request, record) ? this.#toRun(request, sought) : undefined;
    const isValid = (): boolean =>
      this.#host.find(OPERATOR, sought) !== undefined &&
      this.#records.find(id)?.ports === record.ports &&
      (token === undefined || this.#mayRun(sought, token));
    return { by: 'public', sandbox: toPorts(found, record), port, isValid };
  }

  /** The access token of a client that may run commands in the sandbox. E2bError 401; AppError forbidden. */
  #toRun({ headers }: AccessRequest['request'], sought: SoughtById): string {
    const token = headers[ACCESS_TOKEN];
    const holder = typeof token === 'string' ? this.#holder(sought, token) : undefined;
    if (typeof token !== 'string' || holder === undefined)
      throw new E2bError(401, 'unauthorized access, please provide a valid access token');
    assertOperation(holder, 'exec');
    return token;
  }

  #mayRun(sought: SoughtById, token: string): boolean {
    const holder = this.#holder(sought, token);
    return holder !== undefined && mayDo(holder, 'exec');
  }

  /** Undefined also if it sees the sandbox no more. */
  #holder(sought: SoughtById, token: string): Principal | undefined {
    const holder = this.#records.holderOf(sought.id, token);
    return holder !== undefined && this.#host.find(holder, sought) !== undefined ? holder : undefined;
  }

  #assertAllowed({ headers }: AccessRequest['request'], id: string, { ports }: SandboxRecord): void {
    if (ports === 'public') return;
    if (ports === 'closed')
      throw new E2bError(
        403,
        'the key that created this sandbox has no operation connect, so its ports are closed',
      );
    const token = headers[TRAFFIC_TOKEN];
    if (typeof token === 'string' && areEqual(token, this.#records.trafficToken(id))) return;
    throw new E2bError(
      403,
      `Sandbox is secured with traffic access token. Token header '${TRAFFIC_TOKEN}' is missing or invalid`,
    );
  }
}

function needsToken({ method = '', url = '' }: AccessRequest['request'], { ports }: SandboxRecord): boolean {
  const asked = `${method} ${url}`;
  return !(WITHOUT_TOKEN.has(asked) || (ports === 'token' && WITH_TRAFFIC_TOKEN.test(asked)));
}

function toPorts(found: SandboxPorts, { masksHost }: SandboxRecord): SandboxPorts {
  return {
    id: found.id,
    access: () => 'public',
    // The interpreter knows itself by no other name.
    hostHeader: (port) => (masksHost || port === CODE_PORT ? 'localhost' : 'sent'),
    connectPort: (port, options) => found.connectPort(port, options),
  };
}

/** Answers failures in E2B's words, by which the SDKs tell an ended sandbox from a closed port. */
export function refuseAs(addresses: Addresses): typeof refuse {
  return (request, response, error, requestId) => {
    const sought = addresses.find(request.headers.host ?? '', request.headers);
    const id = sought !== undefined && 'id' in sought ? toE2bId(sought.id) : '';
    const code = isAppError(error) ? error.code : undefined;
    if (code === 'not_found' || code === 'paused')
      return refuse(request, response, new SandboxGoneError(id), requestId);
    if (code !== 'port_not_listening') return refuse(request, response, error, requestId);
    const closed = new E2bError(502, 'The sandbox is running but port is not open');
    refuse(request, response, closed, requestId, { sandboxId: id, port: sought?.port });
  };
}

/** Does nothing but close the connection if an answer has begun. */
export function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  error: unknown,
  requestId: string,
  about: object = {},
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status, headers, body } = toE2bAnswer(error, requestId);
  const text = JSON.stringify({ ...about, ...body });
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  if (!request.complete) response.shouldKeepAlive = false;
  response.writeHead(status, {
    ...headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'x-content-type-options': 'nosniff',
  });
  response.end(request.method === 'HEAD' ? undefined : text);
}
