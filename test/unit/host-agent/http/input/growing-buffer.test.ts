import t from 'tap';
import { GrowingBuffer } from '../../../../../host-agent/src/http/input/json-body.ts';

t.test('pieces of any size are what was added, in order', async (t) => {
  const gathered = new GrowingBuffer();
  t.equal(gathered.bytes.length, 0);
  const pieces = ['', 'a', 'b'.repeat(1022), 'c', 'd', 'e'.repeat(5000), 'f'];
  for (const piece of pieces) gathered.add(Buffer.from(piece));
  t.equal(gathered.bytes.toString(), pieces.join(''));
  t.equal(gathered.sizeBytes, pieces.join('').length);
});

t.test('single bytes share memory', async (t) => {
  const gathered = new GrowingBuffer();
  const blocks = new Set<ArrayBufferLike>();
  for (let at = 0; at < 100_000; at++) {
    gathered.add(Uint8Array.of(at % 251));
    blocks.add(gathered.bytes.buffer);
  }
  t.ok(blocks.size < 20, `${blocks.size} blocks`);
  t.ok(gathered.bytes.buffer.byteLength <= 200_000);
  t.ok(gathered.bytes.every((byte, at) => byte === at % 251));
});
