// A host and a guest channel over a link in memory, without a handshake, with windows of any size.
import { Channel, type ChannelOptions, DEFAULT_WINDOW_BYTES } from '@sandboxd/proto';
import { FrameDecoder } from '../../../../proto/src/wire/frame-decoder.ts';
import { type MemoryLinks, memoryLinks } from '../../../support/memory-link.ts';

export type ChannelPair = {
  readonly links: MemoryLinks;
  readonly host: Channel;
  readonly guest: Channel;
  /** Errors passed to onFault, on either side. */
  readonly faults: unknown[];
};

export function channelPair(
  onRequest: NonNullable<ChannelOptions['onRequest']>,
  options: {
    readonly windowBytes?: number;
    readonly capacityBytes?: number;
  } = {},
): ChannelPair {
  const { windowBytes = DEFAULT_WINDOW_BYTES, capacityBytes } = options;
  const links = memoryLinks(capacityBytes);
  const faults: unknown[] = [];
  const common = {
    sendWindow: windowBytes,
    receiveWindow: windowBytes,
    onFault: (cause: unknown) => void faults.push(cause),
  };
  const host = new Channel({
    role: 'host',
    link: links.host,
    ...common,
  });
  const guest = new Channel({ role: 'guest', link: links.guest, onRequest, ...common });
  for (const [channel, link] of [
    [host, links.host],
    [guest, links.guest],
  ] as const) {
    const decoder = new FrameDecoder('refuse', (encoded) => channel.receive(encoded));
    link.start({
      data: (chunk) => decoder.push(Buffer.from(chunk)),
      drain: () => channel.drained(),
      close: () => channel.abandon({ kind: 'lost', cause: new Error('the link was closed') }),
    });
  }
  return { links, host, guest, faults };
}
