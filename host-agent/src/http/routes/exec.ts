// Exec over its three transports: streamed response, hijacked connection, WebSocket.
import { endingOf, guestOf, type HttpContext } from '../context.ts';
import { HttpError } from '../errors.ts';
import { toCommandBody } from '../exec/command-output.ts';
import { ExecRun } from '../exec/exec-run.ts';
import { toExecForm } from '../exec/output-format.ts';
import { collectOutput, OutputLines } from '../exec/output-json.ts';
import { feedFromSocket, sendToSocket } from '../exec/raw.ts';
import { type ExecWebSockets, requireWebSocket, takeoverOf } from '../exec/upgrade.ts';
import type { RequestedExec } from '../exec/web-socket.ts';
import { answerPullStream } from '../pull-stream.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

export function execHandlers({ sandboxes: host }: HttpServices, webSockets: ExecWebSockets) {
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
      if (body.detach) {
        const commands = guestOf(host, c, id).commands();
        const command = await commands.start({ ...body, stdin: stdin || body.stdin === true });
        return c.json({ ...toCommandBody(command), ...(warnings.length > 0 && { warnings }) }, 201);
      }
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
      requireWebSocket(c);
      // Checked before the upgrade, so that an unknown sandbox causes 404.
      host.as(c.get('principal')).get(id);
      return webSockets.upgrade(c, {
        startRun: ({ request, warnings: bodyWarnings }, onDrain) =>
          startRun(c, id, { request, warnings: [...warnings, ...bodyWarnings] }, { onDrain }),
        ending: endingOf(c),
      });
    },
  } satisfies Partial<Handlers>;
}
