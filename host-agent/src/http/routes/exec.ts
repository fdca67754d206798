// Exec over its three transports: streamed response, hijacked connection, WebSocket.
import type { Duplex } from 'node:stream';
import { EXEC_FORMS, type ExecForm } from '@sandboxd/api';
import type { AwakeSandbox } from '../../sandboxes/interface.ts';
import { endingOf, guestOf, type HttpContext } from '../context.ts';
import { HttpError } from '../errors.ts';
import { collectOutput, OutputLines, toCommandBody } from '../exec/command-output.ts';
import { ExecRun } from '../exec/exec-run.ts';
import { type ExecWebSockets, requireWebSocket, takeoverOf } from '../exec/upgrade.ts';
import type { RequestedExec } from '../exec/web-socket.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream, linger, writePullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';

export function execHandlers({ sandboxes: host }: HttpServices, webSockets: ExecWebSockets) {
  /** AppError not_found, guest_unreachable. */
  const startRun = (
    c: HttpContext,
    sandbox: AwakeSandbox,
    { request, warnings }: RequestedExec,
    input?: { onDrain: () => void; saysId: boolean },
  ): ExecRun => {
    const log = c.get('log');
    const ending = endingOf(c);
    const onEnding = (): void => run.end('the daemon stopped while the command ran', 'cancelled');
    const run = new ExecRun({
      start: (events) => sandbox.exec(request, events, { hasStdin: input !== undefined }),
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

  const hijack = async (
    c: HttpContext,
    id: string,
    requested: RequestedExec,
    saysId: boolean,
  ): Promise<Response> => {
    const takeover = takeoverOf(c);
    if (takeover === undefined) {
      throw new HttpError(
        'not_implemented',
        'stdin=1 needs a connection of its own, which this transport is not',
      );
    }
    const { socket, head } = takeover;
    const sandbox = await guestOf(host, c, id);
    const run = startRun(c, sandbox, requested, { onDrain: () => socket.resume(), saysId });
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
    exec: async ({ params: { id }, query: { stdin, max_output_bytes, command_id }, body, warnings }, c) => {
      const requested = { request: body, warnings };
      if (body.detach) {
        const commands = (await guestOf(host, c, id)).commands();
        const command = await commands.start({ ...body, stdin: stdin || body.stdin === true });
        return c.json({ ...toCommandBody(command), ...(warnings.length > 0 && { warnings }) }, 201);
      }
      if (stdin) return hijack(c, id, requested, command_id);
      const { signal } = c.req.raw;
      const run = startRun(c, await guestOf(host, c, id), requested);
      signal.addEventListener('abort', () => run.cancel(), { once: true });
      if (signal.aborted) run.cancel();
      await run.opened;
      const form = toExecForm(c.req.header('accept'));
      if (run.id !== undefined) c.header(COMMAND_ID_HEADER, run.id);
      if (form === 'application/json') return collectOutput(run, max_output_bytes);
      const stream = form === 'application/x-ndjson' ? new OutputLines(run) : run;
      return answerPullStream(c, stream, { 'Content-Type': form });
    },

    execWebSocket: async ({ params: { id }, query: { command_id: saysId }, warnings }, c) => {
      requireWebSocket(c);
      // Before the upgrade, so that an unknown sandbox causes 404.
      const sandbox = await guestOf(host, c, id);
      return webSockets.upgrade(c, {
        startRun: ({ request, warnings: bodyWarnings }, onDrain) =>
          startRun(c, sandbox, { request, warnings: [...warnings, ...bodyWarnings] }, { onDrain, saysId }),
        ending: endingOf(c),
      });
    },
  } satisfies Partial<Handlers>;
}

// The response format of a non-interactive exec: frames, unless Accept names JSON and no range that includes frames.
/** Media ranges that include frames. HTTP libraries often add them to `application/json`. */
const FRAMES = ['*/*', 'application/*', 'application/octet-stream'];

export function toExecForm(accept: string | undefined): ExecForm {
  const ranges = (accept ?? '').split(',').map((range) => range.split(';', 1)[0]?.trim().toLowerCase() ?? '');
  if (ranges.some((range) => FRAMES.includes(range))) return 'application/octet-stream';
  return EXEC_FORMS.find((form) => ranges.includes(form)) ?? 'application/octet-stream';
}

// Exec over a hijacked connection: a fixed response head, which only a client that asks gets more of, then frames in
// both directions.
const RESPONSE_HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n';
const COMMAND_ID_HEADER = 'X-Command-Id';

/**
 * Forwards the client's bytes to the run from now on, even before the response head is sent. `onEnd` is called at the
 * end of the client's input.
 */
export function feedFromSocket(
  socket: Duplex,
  head: Buffer,
  run: ExecRun,
  onEnd: () => void = () => run.kill(),
): void {
  const onBytes = (bytes: Buffer) => {
    if (!run.push(bytes)) socket.pause();
  };
  socket.on('data', onBytes);
  socket.resume();
  if (head.length > 0) onBytes(head);
  // For an interactive command, the end of the client's input counts as a disconnect.
  socket.on('end', onEnd);
  socket.on('error', () => run.cancel());
  socket.on('close', () => run.cancel());
}

/** Sends the response head and all frames with backpressure, then closes, at most `lingerMs` after the last byte. */
export async function sendToSocket(socket: Duplex, run: ExecRun, lingerMs: number): Promise<void> {
  const id = run.id === undefined ? '' : `${COMMAND_ID_HEADER}: ${run.id}\r\n`;
  socket.write(`${RESPONSE_HEAD}${id}\r\n`);
  await writePullStream(socket, run);
  if (socket.destroyed) return;
  socket.end(() => linger(socket, socket, lingerMs));
}
