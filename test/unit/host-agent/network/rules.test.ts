// Kernel features that the rules of a sandbox need.
import t from 'tap';
import { guestRules } from '../../../../host-agent/src/network/rules/guest.ts';

t.test('the gate at the tap asks for nothing that Debian 12’s kernels are built without', (t) => {
  const text = guestRules({
    ...{
      guestIp: '10.87.0.6',
      gateway: '10.87.0.5',
      mac: '02:00:00:00:00:02',
      gatewayMac: '02:00:00:00:00:01',
    },
    ...{ resolverIp: '10.87.0.7', resolverPort: 5353 },
  } as Parameters<typeof guestRules>[0]);
  const gate = /table netdev [\s\S]*?\n\}\n/.exec(text)?.[0] ?? '';
  t.match(gate, /hook ingress/);
  t.notMatch(gate, /\breject\b/, 'CONFIG_NFT_REJECT_NETDEV is not set there');
  t.end();
});
