// The supervised service: configure, start, stop, restart, look at it, read its output.
import { DEFAULT_OUTPUT_PAGE_BYTES, MAX_OUTPUT_PAGE_BYTES } from '@sandboxd/api';
import { clientSignal } from '../client-signal.ts';
import type { HttpContext } from '../context.ts';
import { answerOutflow } from '../outflow.ts';
import type { Handlers } from '../serve-routes.ts';
import { OutputFrames } from '../service/output-frames.ts';
import { readOutputPage } from '../service/output-page.ts';
import { toStatusBody } from '../service/status-body.ts';
import type { HttpServices } from '../services.ts';

export function serviceHandlers({ sandboxes: host, stopping }: HttpServices) {
  const serviceOf = (c: HttpContext, id: string) => host.as(c.get('caller')).get(id).service();
  return {
    getService: async ({ params: { id } }, c) => toStatusBody(await serviceOf(c, id).status(clientSignal(c))),

    // What a command has begun goes on when its client leaves, so these give the guest no signal.
    configureService: async ({ params: { id }, body }, c) =>
      toStatusBody(await serviceOf(c, id).configure(body)),

    startService: async ({ params: { id } }, c) => toStatusBody(await serviceOf(c, id).start()),

    stopService: async ({ params: { id }, body: { grace_s } }, c) =>
      toStatusBody(await serviceOf(c, id).stop(grace_s === undefined ? undefined : grace_s * 1000)),

    restartService: async ({ params: { id } }, c) => toStatusBody(await serviceOf(c, id).restart()),

    readServiceLogs: async ({ params: { id }, query: { follow, from_seq, max_bytes } }, c) => {
      const service = serviceOf(c, id);
      if (from_seq !== undefined || max_bytes !== undefined || wantsJson(c)) {
        const maxBytes = Math.min(max_bytes ?? DEFAULT_OUTPUT_PAGE_BYTES, MAX_OUTPUT_PAGE_BYTES);
        return readOutputPage(service, { fromSeq: from_seq ?? 0, maxBytes }, clientSignal(c));
      }
      const signals = [clientSignal(c), ...(stopping ? [stopping] : [])];
      const frames = new OutputFrames(service, { isFollowing: follow, isWaiting: false }, signals);
      await frames.opened;
      const headers = { 'Content-Type': 'application/octet-stream' };
      if (c.req.method !== 'HEAD') return answerOutflow(c, frames, headers);
      frames.cancel();
      return c.body(null, 200, headers);
    },
  } satisfies Partial<Handlers>;
}

function wantsJson(c: HttpContext): boolean {
  return c.req.header('accept')?.toLowerCase().includes('application/json') ?? false;
}
