// A guest that floods the resolver does not affect others; 500 concurrent names are legitimate.
import '../../../support/network/own-network.ts';
import { readFile } from 'node:fs/promises';
import t from 'tap';
import type { NetworkSlot } from '../../../../host-agent/src/network/index.ts';
import { type Guest, Lab, sh, UNHEARD } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(240_000));
const lab = await Lab.open(t);
const network = await lab.openNetwork();
t.teardown(() => network.close());
const NAMES = 500;
for (let index = 0; index < NAMES; index++)
  lab.names.set(`n${index}.many.example`, [`8.1.${index >> 8}.${index & 255}`]);
lab.names.set('quiet.example', ['8.8.4.4']);

async function makeGuest(allowlist: readonly string[]): Promise<[NetworkSlot, Guest]> {
  const slot = await network.allocate();
  await network.create(slot);
  t.teardown(() => network.destroy(slot));
  await network.start(slot, {
    allowlist,
    ...UNHEARD,
  });
  return [slot, await lab.boot(slot)];
}

const [noisy, noise] = await makeGuest(['*.flood.example']);
const [quiet, other] = await makeGuest(['quiet.example', '*.many.example']);

/** Each query is for another name, so each accepted one goes upstream. */
const FLOOD = `
  const query = (n) => {
    const label = 'q' + n, name = Buffer.from(String.fromCharCode(label.length) + label + '\\x05flood\\x07example\\0', 'latin1');
    return Buffer.concat([Buffer.from('000101000001000000000000', 'hex'), name, Buffer.from('00010001', 'hex')]);
  };
  const until = Date.now() + 4000; let sent = 0;
`;
const BY_UDP = `${FLOOD}
  const s = require('dgram').createSocket('udp4');
  await new Promise((resolve) => s.connect(53, '${noisy.gateway}', resolve));
  while (Date.now() < until) {
    for (let i = 0; i < 500; i++) { s.send(query(sent++)); }
    await new Promise(setImmediate);
  }
  console.log(sent); process.exit();
`;
const BY_TCP = `${FLOOD}
  const framed = (n) => { const q = query(n), l = Buffer.alloc(2); l.writeUInt16BE(q.length); return Buffer.concat([l, q]); };
  const once = () => new Promise((resolve) => {
    const s = require('net').connect(53, '${noisy.gateway}');
    s.on('error', () => 0); s.on('close', resolve); s.resume();
    const timer = setInterval(() => Date.now() > until && s.destroy(), 100);
    s.on('close', () => clearInterval(timer));
    const more = () => { while (!s.destroyed && s.write(framed(sent++)) && sent % 500); if (!s.destroyed) setImmediate(more); };
    s.on('connect', more);
  });
  while (Date.now() < until) await once();
  console.log(sent); process.exit();
`;
/** Sequential queries of the other guest until the flood ends: their number, and those without an answer. */
const RESOLVE = `
  const dns = new (require('dns').promises.Resolver)({ timeout: 3000, tries: 1 }); dns.setServers(['${quiet.gateway}']);
  const until = Date.now() + 4000; let asked = 0; const lost = [];
  while (Date.now() < until) { asked++; await dns.resolve4('quiet.example').catch((e) => lost.push(e.code)); await new Promise((r) => setTimeout(r, 10)); }
  console.log(JSON.stringify({ asked, lost }));
`;

const heard = (): number => lab.names.asked.filter((name) => name.includes('.flood.example')).length;

for (const [way, script] of Object.entries({ UDP: BY_UDP, TCP: BY_TCP }))
  t.test(`a guest that floods the resolver by ${way} costs another one nothing`, async (t) => {
    const before = heard();
    const startedAt = performance.now();
    const [sent, said] = await Promise.all([noise.js(script), other.js(RESOLVE)]);
    const { asked, lost } = JSON.parse(said) as { asked: number; lost: string[] };
    const seconds = (performance.now() - startedAt) / 1000;
    t.comment(`${sent} sent, ${heard() - before} heard in ${seconds} s; the other asked ${asked}`);
    t.ok(Number(sent) > 40_000, `${sent} questions in 4 s`);
    t.ok(heard() - before < 2500 + 250 * seconds + 10, `${heard() - before} of them were heard`);
    t.ok(asked > 0);
    t.same(lost, [], `${asked} of the other guest are answered`);
    const tracked = await readFile('/proc/net/nf_conntrack', 'latin1');
    t.notOk(tracked.includes(`src=${noisy.guestIp}`), 'none takes room among the connections of the host');
  });

t.test(`${NAMES} names at once are all answered, and all their addresses open`, async (t) => {
  const said = await other.js(`
    const ask = async (index) => {
      const dns = new (require('dns').promises.Resolver)({ timeout: 5000, tries: 3 }); dns.setServers(['${quiet.gateway}']);
      return dns.resolve4('n' + index + '.many.example').then((found) => found[0], (e) => e.code);
    };
    console.log(JSON.stringify(await Promise.all(Array.from({ length: ${NAMES} }, (_, index) => ask(index)))));
  `);
  const answers = JSON.parse(said) as string[];
  t.same(
    answers,
    answers.map((_, index) => `8.1.${index >> 8}.${index & 255}`),
  );
  const open = await sh('nft -j list set ip sandbox allowed', quiet.namespace);
  t.equal(open.match(/"8\.1\.\d+\.\d+"/g)?.length, NAMES);
});

/** TCP connections that the host has closed and its kernel keeps for a minute or more. */
const orphans = async (): Promise<string[]> => {
  const states = 'state fin-wait-1 state last-ack state closing';
  return (await sh(`ss -Htn ${states} src ${noisy.resolverIp}`)).split('\n').filter(Boolean);
};

t.test('a guest that takes no answers leaves the host’s kernel only so many connections', async (t) => {
  // It gets no acknowledgements and sends no resets, only SYN packets.
  await noise.sh(`nft 'table ip deaf {
    chain in { type filter hook input priority 0; tcp sport 53 tcp flags & (syn | rst) == 0 drop; };
    chain out { type filter hook output priority 0; tcp dport 53 tcp flags & rst == rst drop; }; }'`);
  const startedAt = performance.now();
  const made = Number(
    await noise.js(`${FLOOD}
      const framed = (n) => { const q = query(n), l = Buffer.alloc(2); l.writeUInt16BE(q.length); return Buffer.concat([l, q]); };
      let made = 0;
      // Connections that are not accepted would be retried.
      setTimeout(() => { console.log(made); process.exit(); }, 4000);
      const one = () => new Promise((resolve) => {
        const s = require('net').connect(53, '${noisy.gateway}');
        s.on('connect', () => { made++; s.end(framed(sent++)); setTimeout(() => s.destroy(), 50); });
        s.on('error', resolve); s.on('close', resolve);
      });
      await Promise.all(Array.from({ length: 128 }, async () => { for (;;) await one(); }));`),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  const left = (await orphans()).length;
  t.comment(`${made} connections in ${seconds} s, ${left} left`);
  t.ok(made > 30, `${made} connections`);
  // A burst of 40, and 5 per second.
  t.ok(made < 60 + 6 * seconds, `${made} connections in ${seconds} s`);
  t.ok(left <= made);
  await noise.sh('nft delete table ip deaf');
});
