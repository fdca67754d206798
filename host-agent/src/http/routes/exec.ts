// Exec over its three transports: streamed response, hijacked connection, WebSocket.
import { MAX_JSON_BYTES } from '@sandboxd/api';
import { type WebSocket, WebSocketServer } from 'ws';
import { chooseProtocol } from '../authentication.ts';
import { endingOf, guestOf, type HttpContext, type Takeover } from '../context.ts';
import { HttpError } from '../errors.ts';
import { ExecRun } from '../exec/exec-run.ts';
import { toExecForm } from '../exec/output-format.ts';
import { collectOutput, OutputLines } from '../exec/output-json.ts';
import { feedFromSocket, sendToSocket } from '../exec/raw.ts';
import { type RequestedExec, serveWebSocket } from '../exec/web-socket.ts';
import { isStrict, isStrictHeader, PREFERENCE_APPLIED, STRICT } from '../input/preference.ts';
import { answerPullStream } from '../pull-stream.ts';
import type { Handlers } from '../serve-routes.ts';
import { refuse } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';

/** The only supported version (RFC 6455). */
const WEB_SOCKET_VERSION = { 'Sec-WebSocket-Version': '13' } as const;

export function execHandlers({ sandboxes: host }: HttpServices) {
  const webSockets = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_JSON_BYTES,
    perMessageDeflate: false,
    handleProtocols: chooseProtocol,
  });
  webSockets.on('headers', (lines, { headers: { prefer } }) => {
    const sent = Array.isArray(prefer) ? prefer.join(',') : prefer;
    if (isStrictHeader(sent)) lines.push(`${PREFERENCE_APPLIED}: ${STRICT}`);
  });
  webSockets.on('wsClientError', (error, socket) => {
    const message = `malformed websocket request: ${error.message.toLowerCase()}`;
    refuse(socket, new HttpError('malformed', message, WEB_SOCKET_VERSION));
  });

  /** AppError not_found, guest_unreachable. */
  const startRun = (
    c: HttpContext,
    id: string,
    { request, warnings }: RequestedExec,
    input?: { onDrain: () => void },
  ): ExecRun => {
    const log = c.get('log');
    const ending = endingOf(c);
    const onEnding = (): void => run.end('the daemon stopped while the command ran', 'cancelled');
    const run = new ExecRun({
      start: (events) => guestOf(host, c, id).exec(request, events, { hasStdin: input !== undefined }),
      onExit: ({ agentUs, ...exec }) => {
        ending?.removeEventListener('abort', onEnding);
        log.info({ agentUs, exec }, 'exec ended');
      },
      ...input,
      warnings,
    });
    ending?.addEventListener('abort', onEnding, { once: true });
    return run;
  };

  const hijack = async (c: HttpContext, id: string, requested: RequestedExec): Promise<Response> => {
    const takeover = takeoverOf(c);
    if (takeover === undefined) {
      throw new HttpError(
        'not_implemented',
        'stdin=1 needs a connection of its own, which this transport is not',
      );
    }
    const { socket, head } = takeover;
    const run = startRun(c, id, requested, { onDrain: () => socket.resume() });
    feedFromSocket(socket, head, run);
    await run.opened;
    takeover.run = () => {
      sendToSocket(socket, run, takeover.lingerMs).catch((error: unknown) => {
        c.var.log.error({ err: error }, 'exec connection failed');
        socket.destroy();
      });
    };
    return c.body(null, 200);
  };

  return {
    exec: async ({ params: { id }, query: { stdin, max_output_bytes }, body, warnings }, c) => {
      const requested = { request: body, warnings };
      if (stdin) return hijack(c, id, requested);
      const { signal } = c.req.raw;
      const run = startRun(c, id, requested);
      signal.addEventListener('abort', () => run.cancel(), { once: true });
      if (signal.aborted) run.cancel();
      await run.opened;
      const form = toExecForm(c.req.header('accept'));
      if (form === 'application/json') return collectOutput(run, max_output_bytes);
      const stream = form === 'application/x-ndjson' ? new OutputLines(run) : run;
      return answerPullStream(c, stream, { 'Content-Type': form });
    },

    execWebSocket: ({ params: { id }, warnings }, c) => {
      const takeover = requireWebSocket(c);
      // Checked before the upgrade, so that an unknown sandbox causes 404.
      host.as(c.get('principal')).get(id);
      takeover.run = () => {
        webSockets.handleUpgrade(takeover.incoming, takeover.socket, takeover.head, (socket: WebSocket) => {
          serveWebSocket(socket, {
            startRun: ({ request, warnings: bodyWarnings }, onDrain) =>
              startRun(c, id, { request, warnings: [...warnings, ...bodyWarnings] }, { onDrain }),
            isStrict: isStrict(c),
            log: c.var.log,
            connection: takeover.socket,
            ending: endingOf(c),
          });
        });
      };
      return c.body(null, 200);
    },
  } satisfies Partial<Handlers>;
}

/** Undefined without a connection, and for requests that do not hijack theirs. */
function takeoverOf(c: HttpContext): Takeover | undefined {
  const env: HttpContext['env'] | undefined = c.env;
  return env?.takeover;
}

/** HttpError upgrade_required if the request is not a WebSocket upgrade. */
function requireWebSocket(c: HttpContext): Takeover {
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
