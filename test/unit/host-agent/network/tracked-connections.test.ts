// The connections of a guest that was away: which its network still knows, and what becomes of those that it forgot.
import '../../../support/network/own-network.ts';
import { connect } from 'node:net';
import t from 'tap';
import { Lab, sh, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(120_000));
const lab = await Lab.open(t);
const PORTS = [{ hostPort: 8080, guestPort: 8000 }];

/** Listens on two ports. Any line is answered, and `reset` by a reset. */
const server = (ports: string) =>
  `for (const port of [${ports}]) require('net').createServer((s) => { s.on('error', () => {}); s.on('data', (d) => String(d) === 'reset' ? s.resetAndDestroy() : s.write('yes')); }).listen(port, '0.0.0.0', () => console.log('up'))`;

/** A program in the guest with a connection, that does what lines on its standard input say. */
const CLIENT = `
  const s = require('net').connect(81, '${WEB_IP}', () => console.log('connected'));
  s.on('data', (d) => console.log(String(d)));
  s.on('error', (e) => console.log(e.code));
  process.on('SIGUSR1', () => s.write('more'));
  process.on('SIGUSR2', () => s.write('reset'));
`;

async function open() {
  const network = await lab.openNetwork();
  const slot = await network.allocate();
  await network.create(slot);
  await network.publish(slot, PORTS);
  const guest = await lab.boot(slot);
  await sh(`nft add element ip sandbox allowed '{ ${WEB_IP} timeout 60s }'`, slot.namespace);
  const list = async () => {
    const { address, tracked } = await network.connections(slot);
    const bytes = Buffer.from(tracked ?? []);
    const all: string[] = [];
    for (let at = 0; at < bytes.length; at += 8)
      all.push(`${bytes.readUInt16BE(at + 2)} ${bytes.subarray(at + 4, at + 8).join('.')}`);
    return {
      address: Buffer.from(address ?? []).join('.'),
      all,
      own: bytes.length > 0 && bytes.readUInt16BE(0),
    };
  };
  return { network, slot, guest, list };
}

t.test('tracked connections are listed until they are reset, and a forgotten one is reset', async (t) => {
  const { network, slot, guest, list } = await open();
  await lab.serve(lab.internet, server('81'));
  await lab.serve(guest.namespace, server('8000'));
  t.same(await list(), { address: slot.guestIp, all: [], own: false });
  const inward = connect(8080, '127.0.0.1');
  await new Promise((resolve) => {
    inward.on('data', resolve);
    inward.write('x');
  });
  const { all, own } = await list();
  t.match(all, [/^\d+ 10\.87\.0\.1$/], 'one from outside, by its peer');
  t.equal(own, 8000);
  inward.destroy();

  const said = async (client: Awaited<ReturnType<typeof lab.serve>>) =>
    await new Promise((resolve) => client.stdout?.once('data', (data) => resolve(String(data).trim())));
  const first = await lab.serve(guest.namespace, CLIENT);
  t.ok((await list()).all.includes(`81 ${WEB_IP}`));
  const answer = said(first);
  first.kill('SIGUSR2');
  t.equal(await answer, 'ECONNRESET');
  t.notOk((await list()).all.includes(`81 ${WEB_IP}`), 'one that was reset is not kept');

  await sh('echo 1 > /proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established', slot.namespace);
  const second = await lab.serve(guest.namespace, CLIENT);
  for (let tries = 0; (await list()).all.includes(`81 ${WEB_IP}`) && tries < 200; tries++)
    await new Promise((resolve) => setTimeout(resolve, 100));
  const fate = said(second);
  second.kill('SIGUSR1');
  t.equal(await fate, 'ECONNRESET', 'at once');
  guest.unplug();
  await network.destroy(slot);
  await network.close();
});
