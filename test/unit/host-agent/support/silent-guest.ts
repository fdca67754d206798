// Guests that say hello as they should, and then nothing more.
import { FrameCodec, type FrameInput } from '@sandboxd/proto';
import { pino } from 'pino';
import { Guest } from '../../../../host-agent/src/guest/guest.ts';
import { FrameDecoder } from '../../../../proto/src/wire/frame-decoder.ts';
import { encodeFrame } from '../../../../proto/src/wire/frame-encoder.ts';
import { syncMark } from '../../../../proto/src/wire/sync-mark.ts';
import { memoryLinks } from '../../../support/memory-link.ts';

const ALL_BYTES = 1 << 20;

/** A connection whose guest answers the hello properly, with `behind` in the same piece, and nothing else. */
export function openHostile(behind: Uint8Array) {
  const links = memoryLinks(ALL_BYTES);
  let nonce: Uint8Array = new Uint8Array(0);
  const decoder = new FrameDecoder('skip', (encoded) => {
    nonce = FrameCodec.decode(encoded).hello?.nonce ?? nonce;
  });
  links.guest.start({ data: (chunk) => decoder.push(Buffer.from(chunk)), drain: () => {}, close: () => {} });
  const answer = (): void => {
    links.host.deliver(ALL_BYTES);
    const helloReply = { version: 1, nonce, window: 65_536, agentVersion: '1', bootId: 'b' };
    const frame: FrameInput = { helloReply };
    links.guest.write([syncMark(nonce), ...encodeFrame(frame), behind]);
    links.guest.deliver(ALL_BYTES);
  };
  return { link: links.host, answer };
}

/** A guest that is connected, and whose agent never answers a call. */
export async function openSilent(explainLoss?: () => Promise<string | undefined>) {
  const { link, answer } = openHostile(Buffer.alloc(0));
  let opened = 0;
  const openChannel = async () => {
    if (opened++ > 0) throw new Error('the guest is gone');
    return { link, needsResync: false };
  };
  const guest = new Guest({
    source: { openChannel },
    incarnation: 'one',
    log: pino({ level: 'silent' }),
    ...(explainLoss && { explainLoss }),
  });
  const connecting = guest.connect();
  await new Promise((resolve) => setImmediate(resolve));
  answer();
  await connecting;
  return { guest, link };
}
