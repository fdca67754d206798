// The identity of a copy.
import '../support/addon-dir.ts';
import t from 'tap';
import { checkIdentity, nameInHosts } from '../../../../guest-agent/src/machine/identity.ts';

t.test('an identity is checked, and the host name takes its place', async (t) => {
  const identity = {
    sandboxId: 'sbx_1',
    hostname: 'sbx-1',
    machineId: 'a'.repeat(32),
    entropy: new Uint8Array(32),
    unixTimeUs: 1,
    entersRoot: false,
    pidsLimit: 0,
    environment: [],
  };
  t.doesNotThrow(() => checkIdentity(identity));
  for (const wrong of [
    { hostname: 'A' },
    { hostname: '' },
    { machineId: 'x' },
    { entropy: new Uint8Array(31) },
    { entropy: new Uint8Array(513) },
    { unixTimeUs: 0 },
  ]) {
    t.throws(() => checkIdentity({ ...identity, ...wrong }), { code: 'invalid' });
  }
  const network = {
    ...{ mac: '02:00:00:00:00:02', gatewayMac: '02:00:00:00:00:01', prefixLength: 30 },
    ...{ address: '10.0.0.2', gateway: '10.0.0.1', dns: '10.0.0.1' },
  };
  t.doesNotThrow(() => checkIdentity({ ...identity, network }));
  for (const wrong of [
    { mac: '02:00:00:00:00' },
    { gatewayMac: '02:00:00:00:00:0G' },
    { address: '10.0.0' },
    { gateway: 'fe80::1' },
    { dns: '10.0.0.1\nsearch evil.example' },
    { prefixLength: 0 },
    { prefixLength: 32 },
  ]) {
    t.throws(() => checkIdentity({ ...identity, network: { ...network, ...wrong } }), { code: 'invalid' });
  }
  const once = nameInHosts('', 'one');
  t.match(once, /^127\.0\.0\.1 localhost\n::1 localhost\n127\.0\.1\.1 one /);
  t.equal(nameInHosts(nameInHosts(once, 'two'), 'one'), once, 'the name before is replaced');
  t.match(
    nameInHosts('127.0.0.1 localhost\n10.0.0.1 db\n', 'one'),
    /^127\.0\.0\.1 localhost\n10\.0\.0\.1 db\n127\.0\.1\.1 one/,
  );
  // As in container runtimes: published ports reach a program that listens on the host's name.
  const connected = nameInHosts(once, 'two', '10.0.0.2');
  t.match(connected, /^127\.0\.0\.1 localhost\n::1 localhost\n10\.0\.0\.2 two # /);
  t.notMatch(connected, '127.0.1.1');
  t.equal(nameInHosts(connected, 'one'), once, 'a copy without a network has none of it');
});
