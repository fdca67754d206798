// A guest's side of a connection that records events.
import { GuestConnection, type GuestConnectionOptions, type Stream } from '@sandboxd/proto';
import type { MemoryLinks } from '../../../support/memory-link.ts';

type NoteTakingGuest = {
  readonly guest: GuestConnection;
  readonly seen: string[];
  readonly streams: Stream[];
};

export function noteTakingGuest(
  links: MemoryLinks,
  options: Partial<GuestConnectionOptions> = {},
): NoteTakingGuest {
  const seen: string[] = [];
  const streams: Stream[] = [];
  const guest = new GuestConnection({
    describe: () => ({
      capabilities: ['exec'],
      agentVersion: '0.1.0',
      bootId: 'boot',
      agentStartUs: 5,
      agentReadyUs: 7,
    }),
    onRequest: (stream) => {
      seen.push(`request ${stream.id}`);
      streams.push(stream);
      stream.handlers = {
        data: (flow, chunk) => void seen.push(`data ${flow} ${chunk}`),
        lost: (loss) => void seen.push(loss.kind),
      };
    },
    onMalformed: (cause) => void seen.push(`malformed: ${cause instanceof Error ? cause.message : cause}`),
    ...options,
  });
  guest.attach(links.guest);
  return { guest, seen, streams };
}
