// Positions in the events of a fleet, as tokens.
import { randomBytes } from 'node:crypto';
import { MAX_HEAD_BYTES } from '@sandboxd/api';
import t from 'tap';
import { FleetPosition, MAX_CURSORS } from '../../../../host-agent/src/fleet/front/events/position.ts';

t.test('a token has what the position had', async (t) => {
  const position = new FleetPosition(1_790_000_000_123);
  const ids = ['00000000-0', 'vvvvvvvv-999999999999999', '0rh192pt-31', '00000001-128'];
  for (const [n, id] of ids.entries()) position.advance(`host-${n}`, id);
  const token = position.toToken('0rh192pt-31');
  t.match(token, /^0rh192pt-31\.[\w-]+$/);
  for (const text of [token, position.toToken()]) {
    const read = FleetPosition.parse(text);
    t.equal(read.sinceMs, 1_790_000_000_123);
    t.same(
      ids.map((_, n) => read.cursorOf(`host-${n}`)),
      ids,
    );
    t.equal(read.cursorOf('host-9'), undefined);
    t.equal(read.toToken('0rh192pt-31'), token);
  }
  position.advance('host-0', 'no id of a host');
  t.equal(position.cursorOf('host-0'), ids[0]);
});

t.test('a token is bounded, and fits the head of a request', async (t) => {
  const position = new FleetPosition(Date.now());
  const names = Array.from({ length: MAX_CURSORS }, (_, n) => `host-${n}`);
  for (const name of names) position.advance(name, 'vvvvvvvv-999999999999999');
  const token = position.toToken('vvvvvvvv-999999999999999');
  t.ok(token.length < MAX_HEAD_BYTES * 0.65, `${token.length}`);
  t.equal(FleetPosition.parse(token).size, MAX_CURSORS);
  // Hosts that come and go under new names are forgotten, those first that were silent for longest.
  position.trim(names.slice(0, 10));
  t.equal(position.size, 74);
  t.ok(position.cursorOf('host-0'));
  t.notOk(position.cursorOf('host-11'));
  t.ok(position.cursorOf(`host-${MAX_CURSORS - 1}`));
  position.advance('one-too-many', '00000000-1');
  t.equal(FleetPosition.parse(position.toToken()).size, 75);
});

t.test('what no gateway made is refused', async (t) => {
  const token = new FleetPosition(Date.now());
  token.advance('h0', '0rh192pt-31');
  const good = token.toToken();
  for (const text of [
    '',
    '.',
    'x',
    '0.',
    '0.AQ',
    good.slice(0, -3),
    `${good}AAAA`,
    good.slice(2),
    `x${good}`,
  ])
    t.throws(() => FleetPosition.parse(text), { code: 'invalid_argument' }, text);
  t.throws(() => FleetPosition.parse(`0.${'A'.repeat(20_000)}`), { code: 'invalid_argument' });
  t.throws(() => FleetPosition.parse('0rh192pt-31'), { code: 'gone' });
  for (let n = 0; n < 2000; n++) {
    const text = `0.${Buffer.concat([Buffer.from([1]), randomBytes(n % 60)]).toString('base64url')}`;
    try {
      const { size } = FleetPosition.parse(text);
      t.ok(size < 10);
    } catch (error) {
      t.match(error, { code: 'invalid_argument' });
    }
  }
});
