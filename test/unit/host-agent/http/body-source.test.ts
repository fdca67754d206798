// A request's body between a fast client and a slow guest: little waits here, and the client is not stopped for every chunk.
import { Readable } from 'node:stream';
import t from 'tap';
import type { HttpContext } from '../../../../host-agent/src/http/context.ts';
import { readBody } from '../../../../host-agent/src/http/input/body-source.ts';

const CHUNK_BYTES = 65_536;
const CHUNKS = 64;

t.test('a client that is faster', async (t) => {
  let given = 0;
  let pauses = 0;
  const incoming = new Readable({
    highWaterMark: CHUNK_BYTES,
    read() {
      given += 1;
      this.push(given > CHUNKS ? null : Buffer.alloc(CHUNK_BYTES, given));
    },
  });
  const pause = incoming.pause.bind(incoming);
  incoming.pause = () => {
    pauses += 1;
    return pause();
  };
  const body = readBody({ env: { incoming } } as unknown as HttpContext);
  let most = 0;
  let taken = 0;
  for (let bytes = await body.read(); bytes !== undefined; bytes = await body.read()) {
    taken += 1;
    t.equal(bytes[0], taken, 'every chunk, in order');
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
    most = Math.max(most, given - taken);
  }
  t.equal(taken, CHUNKS);
  t.ok(most <= 6, `${most} chunks at most were on their way, 4 and what a stream holds were expected`);
  t.ok(pauses >= 2 && pauses <= CHUNKS / 2, `the client was stopped ${pauses} times`);
});
