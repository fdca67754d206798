// Addresses that are not on the internet, in every spelling.
import t from 'tap';
import { parseIpv4, parseIpv4Range } from '../../../../host-agent/src/lib/ipv4.ts';
import { denialReason, specialKind } from '../../../../host-agent/src/network/special-addresses.ts';

const SUBNET = { base: 0x0a570000, prefixLength: 16 };

t.test('special addresses are known by every spelling that is one', async (t) => {
  for (const address of [
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '169.254.169.254',
    '172.31.255.255',
    '192.168.0.1',
    '192.0.2.9',
    '198.19.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '240.0.0.1',
    '168.63.129.16',
    '100.100.100.200',
  ])
    t.ok(specialKind(parseIpv4(address) ?? -1), address);
  for (const address of [
    '1.1.1.1',
    '9.255.255.255',
    '11.0.0.0',
    '100.63.255.255',
    '100.128.0.0',
    '172.32.0.0',
    '223.255.255.255',
    '192.0.1.0',
  ])
    t.equal(specialKind(parseIpv4(address) ?? -1), undefined, address);
  for (const text of ['::1', '1.2.3', '01.2.3.4', '0x7f.1', '1.2.3.4.5', '256.1.1.1', ''])
    t.equal(parseIpv4(text), undefined, text);
  const allowed = [{ base: 0x0a000000, prefixLength: 8 }];
  t.equal(denialReason(0x0a010203, { allowed, subnet: SUBNET }), undefined);
  t.equal(denialReason(0x0a570105, { allowed, subnet: SUBNET }), 'of other sandboxes', 'whatever is allowed');
  for (const text of ['10.0.0.1/8', '10.0.0.0/33', '10.0.0/8', '::/0', 'x'])
    t.equal(parseIpv4Range(text), undefined, text);
});
