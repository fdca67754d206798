// Ports of the host that are asked for twice.
import { BlockList, isIP } from 'node:net';
import { findRepeats, type HostSocket } from '@sandboxd/api';
import fc from 'fast-check';
import t from 'tap';

const ADDRESSES = [
  ...[
    '0.0.0.0',
    '127.0.0.1',
    '127.0.0.2',
    '::',
    '0:0::0',
    '::1',
    '0:0::1',
    '::FFFF:127.0.0.1',
    '::ffff:7f00:1',
  ],
  undefined,
];

t.test('what it finds is what comparing each with all before it finds', (t) => {
  const sockets = fc.array(
    fc.record({ host_ip: fc.constantFrom(...ADDRESSES), host_port: fc.integer({ min: 1, max: 3 }) }),
  );
  fc.assert(
    fc.property(sockets, (list) => {
      const expected = list.flatMap((one, at) =>
        list.slice(0, at).some((two) => isSame(one, two)) ? [at] : [],
      );
      t.same(findRepeats(list), expected, JSON.stringify(list));
    }),
  );
  t.end();
});

/** No address is all of both families. */
function isSame(one: HostSocket, two: HostSocket): boolean {
  if (one.host_port !== two.host_port) return false;
  if (one.host_ip === undefined || two.host_ip === undefined) return true;
  if (isIP(one.host_ip) !== isIP(two.host_ip)) return false;
  return covers(one.host_ip, two.host_ip) || covers(two.host_ip, one.host_ip);
}

function covers(wide: string, address: string): boolean {
  const [family, every] = isIP(wide) === 4 ? (['ipv4', '0.0.0.0'] as const) : (['ipv6', '::'] as const);
  const list = (value: string): BlockList => {
    const block = new BlockList();
    block.addAddress(value, family);
    return block;
  };
  return list(wide).check(address, family) || list(every).check(wide, family);
}
