// The supervised service: status, configure, start, stop, restart, output.
import { DEFAULT_OUTPUT_PAGE_BYTES, MAX_OUTPUT_PAGE_BYTES } from '@sandboxd/api';
import { clientSignal } from '../client-signal.ts';
import { guestOf, type HttpContext } from '../context.ts';
import { answerPullStream } from '../pull-stream.ts';
import type { Handlers } from '../serve-routes.ts';
import { readOutputPage } from '../service/output-page.ts';
import { asFrames, asLines, OutputStream } from '../service/output-stream.ts';
import { toStatusBody } from '../service/status-body.ts';
import type { HttpServices } from '../services.ts';

const LINES = 'application/x-ndjson';

export function serviceHandlers({ sandboxes: host, stopping }: HttpServices) {
  const serviceOf = (c: HttpContext, id: string) => guestOf(host, c, id).service();
  return {
    getService: async ({ params: { id } }, c) => toStatusBody(await serviceOf(c, id).status(clientSignal(c))),

    // These operations continue after a disconnect of the client, so they get no signal.
    configureService: async ({ params: { id }, body }, c) =>
      toStatusBody(await serviceOf(c, id).configure(body)),

    startService: async ({ params: { id } }, c) => toStatusBody(await serviceOf(c, id).start()),

    stopService: async ({ params: { id }, body: { grace_s } }, c) =>
      toStatusBody(await serviceOf(c, id).stop(grace_s === undefined ? undefined : grace_s * 1000)),

    restartService: async ({ params: { id } }, c) => toStatusBody(await serviceOf(c, id).restart()),

    readServiceLogs: async ({ params: { id }, query: { follow, from_seq, max_bytes, ring } }, c) => {
      const service = serviceOf(c, id);
      const areLines = accepts(c, LINES);
      if (
        !areLines &&
        (from_seq !== undefined || max_bytes !== undefined || accepts(c, 'application/json'))
      ) {
        const maxBytes = Math.min(max_bytes ?? DEFAULT_OUTPUT_PAGE_BYTES, MAX_OUTPUT_PAGE_BYTES);
        return readOutputPage(service, { fromSeq: from_seq ?? 0, maxBytes }, clientSignal(c));
      }
      const signals = [clientSignal(c), ...(stopping ? [stopping] : [])];
      const from = areLines && from_seq !== undefined ? { fromSeq: from_seq, ...(ring && { ring }) } : {};
      const request = { isFollowing: follow, isWaiting: false, ...from };
      const output = new OutputStream(
        (sink) => service.output(request, sink),
        areLines ? asLines() : asFrames(),
        signals,
      );
      await output.opened;
      const headers = { 'Content-Type': areLines ? LINES : 'application/octet-stream' };
      if (c.req.method !== 'HEAD') return answerPullStream(c, output, headers);
      output.cancel();
      return c.body(null, 200, headers);
    },
  } satisfies Partial<Handlers>;
}

function accepts(c: HttpContext, type: string): boolean {
  return c.req.header('accept')?.toLowerCase().includes(type) ?? false;
}
