// A guest that opens connections without end reaches its limit, and another guest still gets its own.
import '../../../support/network/own-network.ts';
import { readFile } from 'node:fs/promises';
import t from 'tap';
import { Lab, sh, UNHEARD, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(120_000));
const [OPENED, MOST, DEAF_PORT] = [5000, 4096, 81];
const lab = await Lab.open(t);
lab.names.set('web.example', [WEB_IP]);
await lab.serve(
  lab.internet,
  `require('net').createServer((s) => s.on('error', () => {}).end('well')).listen(82, '0.0.0.0', () => console.log('up'))`,
);
const network = await lab.openNetwork();
t.teardown(() => network.close());

async function makeGuest() {
  const slot = await network.allocate();
  await network.create(slot);
  t.teardown(() => network.destroy(slot));
  await network.start(slot, {
    allowlist: ['web.example'],
    ...UNHEARD,
  });
  const guest = await lab.boot(slot);
  const resolve = `const dns = new (require('dns').promises.Resolver)(); dns.setServers(['${slot.gateway}']); await dns.resolve4('web.example');`;
  return { slot, guest, resolve };
}

t.test('connections that are never answered', async (t) => {
  const rule = `table ip deaf { chain in { type filter hook input priority 0; tcp dport ${DEAF_PORT} drop; }; }`;
  await sh(`nft '${rule}'`, lab.internet);
  const [greedy, other] = [await makeGuest(), await makeGuest()];
  const said = await greedy.guest.js(`${greedy.resolve}
    let refused = 0;
    for (let n = 0; n < ${OPENED}; n++) require('net').connect(${DEAF_PORT}, '${WEB_IP}').on('error', () => refused++);
    const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    await wait(2000);
    while (refused === 0) await wait(100);
    console.log(refused); process.exit();`);
  t.ok(Number(said) > 0, `${said.trim()} were told at once`);
  const ofIt = `src=${greedy.slot.guestIp} `;
  const lines = (await readFile('/proc/net/nf_conntrack', 'latin1')).split('\n');
  const tracked = lines.filter((line) => line.includes(ofIt) && line.includes(`dport=${DEAF_PORT} `)).length;
  // The kernel's count misses a few that start at the same moment.
  t.ok(tracked > MOST / 2 && tracked <= 1.05 * MOST, `${tracked} of ${OPENED}`);
  const answer = await other.guest.js(`${other.resolve}
    const s = require('net').connect(82, '${WEB_IP}'); s.on('data', (d) => { console.log(String(d)); process.exit(); });
    s.on('error', (e) => { console.log(e.code); process.exit(); });`);
  t.equal(answer.trim(), 'well');
});
