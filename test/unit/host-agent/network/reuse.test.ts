// Reused addresses: the next owner does not inherit open addresses, and no conntrack entries remain.
import '../../../support/network/own-network.ts';
import { readFile } from 'node:fs/promises';
import t from 'tap';
import { parseIpv4Range } from '../../../../host-agent/src/lib/ipv4.ts';
import { HOST_IP, Lab, sh, UNHEARD, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(120_000));
const lab = await Lab.open(t);
await lab.serve(
  lab.internet,
  `require('net').createServer((s) => { s.on('error', () => {}); s.pipe(s); }).listen(81, '0.0.0.0', () => console.log('up'))`,
);
lab.names.set('web.example', [WEB_IP]);
const subnet = parseIpv4Range('10.99.0.0/28');
if (subnet === undefined) throw new Error('no range');
const tracked = () => readFile('/proc/net/nf_conntrack', 'latin1');
const CONNECT = `const s = require('net').connect(81, '${WEB_IP}');
  s.on('error', (e) => { console.log(e.code); process.exit(); });`;

t.test('the next one with an address has nothing of the one before', async (t) => {
  const network = await lab.openNetwork({ subnet });
  t.teardown(() => network.close());
  const make = async () => {
    const slot = await network.allocate();
    await network.create(slot);
    await network.start(slot, {
      allowlist: ['web.example'],
      ...UNHEARD,
    });
    const guest = await lab.boot(slot);
    const held = lab.serve(
      guest.namespace,
      `const dns = new (require('dns').promises.Resolver)(); dns.setServers(['${slot.gateway}']);
       dns.resolve4('web.example').then(() => { ${CONNECT} s.on('connect', () => s.write('x')); s.on('data', () => console.log('up')); });`,
    );
    return { slot, guest, held: await held };
  };
  const [first, other] = [await make(), await make()];
  await network.publish(first.slot, [{ hostPort: 8080, guestPort: 80 }]);
  const entries = new RegExp(`src=${first.slot.guestIp.replaceAll('.', '\\.')} `);
  const others = new RegExp(`src=${other.slot.guestIp.replaceAll('.', '\\.')} `);
  // A connection from outside as well: the guest refuses it, and the host tracks it.
  await lab.serve(
    lab.internet,
    `const s = require('net').connect(8080, '${HOST_IP}'); s.on('error', () => {}); s.on('close', () => console.log('over'))`,
  );
  t.match(await tracked(), entries, 'while it is there');
  first.guest.unplug();
  await sh(`umount ${first.guest.namespace}; rm ${first.guest.namespace}`);
  first.held.kill('SIGKILL');
  await network.destroy(first.slot);
  t.notMatch(await tracked(), entries, 'nothing of it is tracked');
  t.match(await tracked(), others, 'what is of others is');
  t.notOk(other.held.exitCode, 'and goes on');

  // The range has two slots for sandboxes, so the next one is the same again.
  const again = await network.allocate();
  await t.rejects(network.allocate(), {
    code: 'exhausted',
    message: /all 2 networks of 10\.99\.0\.0\/28 are taken/,
  });
  t.same(again, first.slot);
  await network.create(again);
  await network.start(again, {
    allowlist: ['web.example'],
    ...UNHEARD,
  });
  const guest = await lab.boot(again);
  t.equal(
    await guest.js(`${CONNECT} s.on('connect', () => { console.log('open'); process.exit(); })`),
    'ECONNREFUSED',
  );
  guest.unplug();
  other.held.kill('SIGKILL');
  for (const slot of [again, other.slot]) await network.destroy(slot);
  t.notMatch(await tracked(), /=10\.99\.0\./);
});
