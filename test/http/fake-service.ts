// The output of a service as a guest keeps it, over restarts of the daemon.
import type { OutputEvents, ServiceOutputRequest } from '../../host-agent/src/guest/service.ts';

export const RINGS = ['a'.repeat(16), 'b'.repeat(16)] as const;

/** What a guest keeps of its service, for whichever daemon asks; the last ring is the newest. */
export class FakeService {
  readonly rings: [id: string, texts: string[]][] = [[RINGS[0], ['zero ', 'one ']]];
  readonly asked: ServiceOutputRequest[] = [];

  readonly output = (request: ServiceOutputRequest, events: OutputEvents) => {
    this.asked.push(request);
    queueMicrotask(() => {
      const known = this.rings.findIndex(([id]) => id === request.ring);
      for (const [at, [id, texts]] of this.rings.entries()) {
        if (at < known) continue;
        const from = at === known ? (request.fromSeq ?? 0) : 0;
        events.records([{ kind: 'ring', seq: from, id }], 1);
        for (const [seq, text] of texts.entries())
          if (seq >= from)
            events.records(
              [{ kind: 'output', stream: 'stdout', seq, unixMs: 1, data: Buffer.from(text) }],
              1,
            );
      }
    });
    return { consumed: () => {}, cancel: () => {} };
  };
}
