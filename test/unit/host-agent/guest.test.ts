// The host's side of a guest agent that breaks the protocol as soon as it has said hello.
import { FrameCodec, type FrameInput } from '@sandboxd/proto';
import { pino } from 'pino';
import t from 'tap';
import { Guest } from '../../../host-agent/src/guest/guest.ts';
import { FrameDecoder } from '../../../proto/src/wire/frame-decoder.ts';
import { encodeFrame } from '../../../proto/src/wire/frame-encoder.ts';
import { syncMark } from '../../../proto/src/wire/sync-mark.ts';
import { memoryLinks } from '../../support/memory-link.ts';

const ALL_BYTES = 1 << 20;

/** A connection whose guest answers the hello properly, with `behind` in the same piece. */
function openHostile(behind: Uint8Array) {
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

t.test('what breaks the protocol right behind the hello fails the connect, and nothing else', async (t) => {
  const { link, answer } = openHostile(Buffer.alloc(64, 0xff));
  const guest = new Guest({
    source: { openChannel: async () => ({ link, needsResync: false }) },
    incarnation: 'one',
    log: pino({ level: 'silent' }),
  });
  const connecting = guest.connect();
  connecting.catch(() => undefined);
  await new Promise((resolve) => setImmediate(resolve));
  t.doesNotThrow(answer, 'where the bytes come in nothing is thrown: nobody would catch it');
  await t.rejects(connecting, { message: /frame length/ });
  t.notOk(guest.isConnected);
  guest.close(new Error('over'));
});
