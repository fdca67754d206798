// The supervised service: configure, start, stop, restart, look at it, read its output.
import { DEFAULT_OUTPUT_PAGE_BYTES, MAX_OUTPUT_PAGE_BYTES } from '@sandboxd/api';
import { clientSignal } from '../client-signal.ts';
import type { HttpContext } from '../context.ts';
import { toWebStream } from '../outflow.ts';
import type { Handlers } from '../serve-routes.ts';
import { OutputFrames } from '../service/output-frames.ts';
import { readOutputPage } from '../service/output-page.ts';
import { toStatusBody } from '../service/status-body.ts';
import type { HttpServices } from '../services.ts';

export function serviceHandlers({ sandboxes, stopping }: HttpServices) {
  const serviceOf = (id: string) => sandboxes.get(id).service();
  return {
    getService: async ({ params: { id } }, c) => toStatusBody(await serviceOf(id).status(clientSignal(c))),

    // What a command has begun goes on when its client leaves, so these give the guest no signal.
    configureService: async ({ params: { id }, body }) => toStatusBody(await serviceOf(id).configure(body)),

    startService: async ({ params: { id } }) => toStatusBody(await serviceOf(id).start()),

    stopService: async ({ params: { id }, body: { grace_s } }) =>
      toStatusBody(await serviceOf(id).stop(grace_s === undefined ? undefined : grace_s * 1000)),

    restartService: async ({ params: { id } }) => toStatusBody(await serviceOf(id).restart()),

    readServiceLogs: async ({ params: { id }, query: { follow, from_seq, max_bytes } }, c) => {
      const service = serviceOf(id);
      if (from_seq !== undefined || max_bytes !== undefined || wantsJson(c)) {
        const maxBytes = Math.min(max_bytes ?? DEFAULT_OUTPUT_PAGE_BYTES, MAX_OUTPUT_PAGE_BYTES);
        return readOutputPage(service, { fromSeq: from_seq ?? 0, maxBytes }, clientSignal(c));
      }
      const signals = [clientSignal(c), ...(stopping ? [stopping] : [])];
      const frames = new OutputFrames(service, { isFollowing: follow, isWaiting: false }, signals);
      await frames.opened;
      const headers = { 'Content-Type': 'application/octet-stream' };
      if (c.req.method !== 'HEAD') return c.body(toWebStream(frames), 200, headers);
      frames.cancel();
      return c.body(null, 200, headers);
    },
  } satisfies Partial<Handlers>;
}

function wantsJson(c: HttpContext): boolean {
  return c.req.header('accept')?.toLowerCase().includes('application/json') ?? false;
}
