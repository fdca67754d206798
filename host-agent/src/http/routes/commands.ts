// Commands by id: their status, output and input, and attached clients.
import { COMMAND_FORMS } from '@sandboxd/api';
import { startTimer } from '@sandboxd/proto';
import type { AttachRequest } from '../../guest/command-info.ts';
import type { ExecEvents, ExecSession } from '../../guest/exec.ts';
import { AppError } from '../../lib/errors.ts';
import type { SandboxCommands } from '../../sandboxes/commands.ts';
import type { AwakeSandbox } from '../../sandboxes/interface.ts';
import { clientSignal, guestOf, type HttpContext, headerOf } from '../context.ts';
import { HttpError } from '../errors.ts';
import { asCommandEvents, asCommandFrames, asCommandLines, toCommandBody } from '../exec/command-output.ts';
import { ExecRun } from '../exec/exec-run.ts';
import { type ExecWebSockets, requireWebSocket, takeoverOf } from '../exec/upgrade.ts';
import { readBody } from '../input/body-source.ts';
import { OutputStream } from '../output-stream.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';
import { feedFromSocket, sendToSocket } from './exec.ts';

const FORMS = {
  'application/octet-stream': asCommandFrames,
  'application/x-ndjson': asCommandLines,
  'text/event-stream': asCommandEvents,
} as const;

export function commandHandlers(
  { sandboxes: host, stopping, bodyIdleMs }: HttpServices,
  webSockets: ExecWebSockets,
) {
  const commandsOf = async (c: HttpContext, id: string) => (await guestOf(host, c, id)).commands();

  const startRun = (
    sandbox: AwakeSandbox,
    cid: string,
    request: Omit<AttachRequest, 'isFollowing'>,
    onDrain?: () => void,
  ): ExecRun => {
    const onStopping = (): void => run.cancel();
    const run = new ExecRun({
      start: (events) => attachSession(sandbox.commands(), cid, request, events),
      onExit: () => stopping.removeEventListener('abort', onStopping),
      ...(onDrain && { onDrain }),
    });
    stopping.addEventListener('abort', onStopping, { once: true });
    return run;
  };

  return {
    listCommands: async ({ params: { id } }, c) => {
      const commands = await (await commandsOf(c, id)).list(clientSignal(c));
      return { commands: commands.map(toCommandBody) };
    },

    getCommand: async ({ params: { id, cid } }, c) =>
      toCommandBody(await (await commandsOf(c, id)).get(cid, clientSignal(c))),

    waitCommand: async ({ params: { id, cid }, query: { timeout_s } }, c) => {
      const commands = await commandsOf(c, id);
      const over = new AbortController();
      const stopTimeout =
        timeout_s === undefined ? undefined : startTimer(timeout_s * 1000, () => over.abort());
      const onStopping = (): void => over.abort(new AppError('cancelled', 'the daemon stops'));
      stopping.addEventListener('abort', onStopping, { once: true });
      if (stopping.aborted) onStopping();
      try {
        const signal = AbortSignal.any([clientSignal(c), over.signal]);
        return toCommandBody(await commands.wait(cid, signal));
      } catch (error) {
        if (!over.signal.aborted || stopping.aborted) throw error;
        return toCommandBody(await commands.get(cid, clientSignal(c)));
      } finally {
        stopTimeout?.();
        stopping.removeEventListener('abort', onStopping);
      }
    },

    readCommandOutput: async ({ params: { id, cid }, query: { from, follow, last_event_id } }, c) => {
      const commands = await commandsOf(c, id);
      const accept = c.req.header('accept')?.toLowerCase() ?? '';
      const type = COMMAND_FORMS.find((form) => accept.includes(form)) ?? 'application/octet-stream';
      const last = headerOf(c, 'last-event-id') || last_event_id;
      const fromSeq = last !== undefined && /^\d{1,15}$/.test(last) ? Number(last) + 1 : from;
      const request = { fromSeq, isFollowing: follow, input: 'none' } as const;
      const output = new OutputStream((sink) => commands.attach(cid, request, sink), FORMS[type](), [
        clientSignal(c),
        stopping,
      ]);
      await output.opened;
      const headers = { 'Content-Type': type, 'Cache-Control': 'no-store' };
      if (c.req.method !== 'HEAD') return answerPullStream(c, output, headers);
      output.cancel();
      return c.body(null, 200, headers);
    },

    attachCommand: async ({ params, query: { from, input, stdin } }, c) => {
      const takeover = takeoverOf(c);
      const isInteractive = stdin && takeover !== undefined;
      if (stdin && !isInteractive)
        throw new HttpError(
          'not_implemented',
          'stdin=1 needs a connection of its own, which this transport is not',
        );
      const request = { fromSeq: from, input: isInteractive ? input : 'none' } as const;
      const sandbox = await guestOf(host, c, params.id);
      if (!isInteractive) {
        const run = startRun(sandbox, params.cid, request);
        const { signal } = c.req.raw;
        signal.addEventListener('abort', () => run.cancel(), { once: true });
        if (signal.aborted) run.cancel();
        await run.opened;
        return answerPullStream(c, run, { 'Content-Type': 'application/octet-stream' });
      }
      const { socket, head, lingerMs } = takeover;
      const run = startRun(sandbox, params.cid, request, () => socket.resume());
      feedFromSocket(socket, head, run, () => run.cancel());
      await run.opened;
      takeover.run = () => {
        sendToSocket(socket, run, lingerMs).catch((error: unknown) => {
          c.var.log.error({ err: error }, 'attached connection failed');
          socket.destroy();
        });
      };
      return c.body(null, 200);
    },

    attachCommandWebSocket: async ({ params, query: { from, input } }, c) => {
      requireWebSocket(c);
      // Before the upgrade, so that an unknown sandbox causes 404.
      const sandbox = await guestOf(host, c, params.id);
      const attach = (onDrain: () => void): ExecRun =>
        startRun(sandbox, params.cid, { fromSeq: from, input }, onDrain);
      return webSockets.upgrade(c, { attach, ending: stopping });
    },

    writeCommandInput: async ({ params: { id, cid }, query: { close } }, c) => {
      const commands = await commandsOf(c, id);
      const body = readBody(c, bodyIdleMs);
      try {
        return toCommandBody(await commands.write(cid, body.read, close, clientSignal(c)));
      } finally {
        body.discard();
      }
    },

    signalCommand: async ({ params: { id, cid }, body: { signal } }, c) =>
      toCommandBody(await (await commandsOf(c, id)).signal(cid, signal)),

    resizeCommand: async ({ params: { id, cid }, body }, c) =>
      toCommandBody(await (await commandsOf(c, id)).resize(cid, body)),

    // Continues after a disconnect of the client.
    endCommand: async ({ params: { id, cid }, query: { grace_s } }, c) =>
      toCommandBody(await (await commandsOf(c, id)).kill(cid, grace_s * 1000, clientSignal(c))),
  } satisfies Partial<Handlers>;
}

// A client of a detached command as an exec session. Its end leaves the command as it is.

/** May throw, as the event `exit` of a session that is lost reports other failures. */
function attachSession(
  commands: Pick<SandboxCommands, 'attach'>,
  id: string,
  request: Omit<AttachRequest, 'isFollowing'>,
  events: ExecEvents,
): ExecSession {
  const startedAtMs = performance.now();
  const credit = new RecordCredit((bytes) => stream.consumed(bytes));
  const stream = commands.attach(
    id,
    { ...request, isFollowing: true },
    {
      records: (records, bytes) => {
        let next: number | undefined;
        credit.received(bytes);
        for (const record of records) {
          if (record.kind === 'output') {
            credit.passedOn(record.data.length);
            events.output(record.stream, record.data);
            next = record.seq + 1;
          } else if (record.kind === 'gap') {
            events.position?.(record.seq, { records: record.records, bytes: record.bytes });
            next = undefined;
          } else next = record.seq;
        }
        if (next !== undefined) events.position?.(next);
        credit.settle();
      },
      end: ({ info }) =>
        events.exit(info.outcome ?? { exitCode: -1, durationMs: 0, error: 'the command has no result' }),
      failed: ({ message, code }) => {
        const durationMs = performance.now() - startedAtMs;
        events.exit({ exitCode: -1, durationMs, error: message, code, isLost: true });
      },
      drain: () => events.drain?.(),
    },
  );
  return {
    consumed: (bytes) => credit.consumed(bytes),
    write: (chunk) => stream.write(chunk),
    closeStdin: () => stream.closeStdin(),
    signal: (name) => stream.signal(name),
    resize: (size) => stream.resize(size),
    cancel: () => stream.cancel(),
  };
}

/** Returns the credit of all received bytes but those of output that the client has not got yet. */
class RecordCredit {
  readonly #give: (bytes: number) => void;
  #dueBytes = 0;
  #heldBytes = 0;

  constructor(give: (bytes: number) => void) {
    this.#give = give;
  }

  received(bytes: number): void {
    this.#dueBytes += bytes;
  }

  passedOn(bytes: number): void {
    this.#heldBytes += bytes;
  }

  consumed(bytes: number): void {
    this.#heldBytes -= bytes;
    this.settle();
  }

  settle(): void {
    const bytes = this.#dueBytes - this.#heldBytes;
    if (bytes <= 0) return;
    this.#dueBytes -= bytes;
    this.#give(bytes);
  }
}
