// The address range of sandboxes: its slots, and routes of the host that it would hide.
import t from 'tap';
import { parseIpv4Range } from '../../../../host-agent/src/lib/ipv4.ts';
import { assertNoClash, Subnet } from '../../../../host-agent/src/network/subnet.ts';

const SUBNET = { base: 0x0a570000, prefixLength: 16 };

t.test('a subnet that the host has a route to is refused by name', async (t) => {
  const subnet = new Subnet(SUBNET);
  const route = (text: string, link: string) => [{ range: parseIpv4Range(text) ?? SUBNET, link }];
  for (const text of ['10.87.4.0/24', '10.0.0.0/8', '10.87.255.255'])
    t.throws(() => assertNoClash(subnet, route(text, 'tun0')), {
      message: /overlaps the route to .* by tun0; choose another/,
    });
  assertNoClash(subnet, route('10.88.0.0/16', 'tun0'));
  assertNoClash(subnet, route('10.87.4.2/32', subnet.link(7)));
  t.match(subnet.addresses(3), {
    ...{ gateway: '10.87.0.13', guestIp: '10.87.0.14', resolverIp: '10.87.0.15', prefixLength: 30 },
  });
  t.ok(new Subnet({ base: 0, prefixLength: 8 }).link(2 ** 22 - 1).length < 16);
});
