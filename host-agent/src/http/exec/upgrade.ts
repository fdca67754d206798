// Upgrades of requests to WebSockets that carry exec frames.
import { MAX_JSON_BYTES } from '@sandboxd/api';
import { type WebSocket, WebSocketServer } from 'ws';
import { chooseProtocol } from '../authentication.ts';
import { connectionOf, type HttpContext, type Takeover } from '../context.ts';
import { HttpError } from '../errors.ts';
import { isStrict, isStrictHeader, PREFERENCE_APPLIED, STRICT } from '../input/preference.ts';
import { refuse } from '../server/responses.ts';
import { serveWebSocket, type WebSocketExec } from './web-socket.ts';

type OwnOption = 'isStrict' | 'log' | 'connection' | 'firstMessageMs';
type UpgradeOptions = WebSocketExec extends infer E
  ? E extends WebSocketExec
    ? Omit<E, OwnOption>
    : never
  : never;

/** The only supported version (RFC 6455). */
const WEB_SOCKET_VERSION = { 'Sec-WebSocket-Version': '13' } as const;

/** For upgrades of hijacked connections. */
export function createWebSocketServer(): WebSocketServer {
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_JSON_BYTES,
    perMessageDeflate: false,
    handleProtocols: chooseProtocol,
  });
  server.on('wsClientError', (error, socket) => {
    const message = `malformed websocket request: ${error.message.toLowerCase()}`;
    refuse(socket, new HttpError('malformed', message, WEB_SOCKET_VERSION));
  });
  return server;
}

export class ExecWebSockets {
  readonly #server = createWebSocketServer();

  constructor() {
    this.#server.on('headers', (lines, { headers: { prefer } }) => {
      const sent = Array.isArray(prefer) ? prefer.join(',') : prefer;
      if (isStrictHeader(sent)) lines.push(`${PREFERENCE_APPLIED}: ${STRICT}`);
    });
  }

  /** HttpError upgrade_required if the request is not a WebSocket upgrade. */
  upgrade(c: HttpContext, options: UpgradeOptions): Response {
    const takeover = requireWebSocket(c);
    takeover.run = () => {
      this.#server.handleUpgrade(takeover.incoming, takeover.socket, takeover.head, (socket: WebSocket) =>
        serveWebSocket(socket, {
          ...options,
          isStrict: isStrict(c),
          log: c.var.log,
          connection: takeover.socket,
        }),
      );
    };
    return c.body(null, 200);
  }
}

/** Undefined without a connection, and for requests that do not hijack theirs. */
export function takeoverOf(c: HttpContext): Takeover | undefined {
  return connectionOf(c).takeover;
}

/** HttpError upgrade_required if the request is not a WebSocket upgrade. */
export function requireWebSocket(c: HttpContext): Takeover {
  const takeover = takeoverOf(c);
  if (takeover === undefined) {
    const isClosing = /\bclose\b/i.test(c.req.header('connection') ?? '');
    throw new HttpError(
      'upgrade_required',
      'this path speaks WebSocket; send an upgrade request, or use POST',
      {
        Upgrade: 'websocket',
        ...WEB_SOCKET_VERSION,
        Connection: isClosing ? 'Upgrade, close' : 'Upgrade',
      },
    );
  }
  return takeover;
}
