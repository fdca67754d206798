// Answers whose bytes come from an outflow are written to their connection without a web stream in between.
import { ServerResponse } from 'node:http';
import type { Http2Bindings, HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Logger } from 'pino';
import type { PullStream } from '../../lib/byte-queue.ts';
import { AppError } from '../../lib/errors.ts';
import type { DirectAnswer, HttpApp } from '../context.ts';
import { REQUEST_ID_HEADER } from '../middleware/request-id.ts';
import { writePullStream } from '../pull-stream.ts';

/**
 * The head goes with the first bytes when they come this soon, else alone: a client then knows that its command runs.
 */
const HEAD_LINGER_MS = 5;

export type DirectAnswerOptions = {
  readonly app: HttpApp;
  readonly log: Logger;
  readonly ending: AbortSignal;
};

/** The app's `fetch` for the server. */
export function answerDirectly({ app, log, ending }: DirectAnswerOptions) {
  return async (request: Request, env: HttpBindings | Http2Bindings): Promise<Response> => {
    if (!(env.outgoing instanceof ServerResponse)) return app.fetch(request, { ...env, ending });
    const direct: DirectAnswer = {};
    const response = await app.fetch(request, { ...env, direct, ending });
    const { stream } = direct;
    if (stream === undefined) return response;
    env.outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    void send(env.outgoing, stream, log.child({ requestId: response.headers.get(REQUEST_ID_HEADER) }));
    return RESPONSE_ALREADY_SENT;
  };
}

/** An answer that breaks off must not look whole: its connection ends without the last chunk. */
async function send(outgoing: ServerResponse, stream: PullStream, log: Logger): Promise<void> {
  const timer = setTimeout(() => outgoing.flushHeaders(), HEAD_LINGER_MS);
  try {
    await writePullStream(outgoing, stream);
    outgoing.end();
  } catch (error) {
    if (error instanceof AppError) log.warn({ reason: error.message }, 'an answer broke off');
    else log.error({ err: error }, 'an answer broke off');
    outgoing.destroy();
  } finally {
    clearTimeout(timer);
  }
}
