// Guests under rules by port: an internet whose servers say what arrives, and programs in the guests.
import type { Test } from 'tap';
import type { EgressRecord, NetworkOptions, NetworkPolicy } from '../../../host-agent/src/network/index.ts';
import { Lab, OTHER_IP, PRIVATE_IP, WEB_IP } from './lab.ts';

export const SSH = { host: 'ok.test', protocol: 'tcp', ports: [22, '9000-9005'] } as const;

/** A guest's program: functions that return a word. */
const PROGRAM = (gateway: string) => `
const net = require('net'); const dgram = require('dgram');
const dns = new (require('dns').promises.Resolver)({ timeout: 2000, tries: 2 });
dns.setServers(['${gateway}']);
const resolve = (name) => dns.resolve4(name).catch((e) => e.code);
const tcp = (host, port) => new Promise((done) => {
  const s = net.connect(port, host);
  const timer = setTimeout(() => { s.destroy(); done('timeout'); }, 3000);
  s.on('data', () => { clearTimeout(timer); s.destroy(); done('open'); });
  s.on('error', (e) => { clearTimeout(timer); done(e.code); });
});
const udp = (host, port, text = 'x') => new Promise((done) => {
  const s = dgram.createSocket('udp4');
  const end = (word) => { clearTimeout(timer); s.close(); done(word); };
  const timer = setTimeout(() => end('timeout'), 1000);
  s.on('error', (e) => end(e.code)); s.on('message', () => end('open'));
  s.connect(port, host, () => s.send(text));
});
`;

export async function openEgressLab(t: Test) {
  const lab = await Lab.open(t);
  /** Each connection or datagram is a line: protocol, address and port. TCP sends a byte each 50 ms, and echoes. */
  const witness = await lab.serve(
    lab.internet,
    `const seen = (s) => console.log(s);
     for (const port of [22, 25, 80, 443, 5432, 9000, 9005])
       require('net').createServer((s) => {
         seen('tcp ' + s.localAddress + ' ' + port); s.on('error', (e) => seen('ended ' + e.code)); s.on('close', () => seen('closed ' + port));
         s.write('hi');
         if (port === 9000) { const timer = setInterval(() => s.write('x'), 50); s.on('close', () => clearInterval(timer)); }
         s.on('data', (d) => s.write(d));
       }).listen(port, '0.0.0.0');
     for (const port of [53, 443, 123]) {
       const u = require('dgram').createSocket('udp4');
       u.on('message', (m, from) => { seen('udp ' + port + ' ' + m); u.send(m, from.port, from.address); });
       u.bind(port, '${WEB_IP}');
     }
     setTimeout(() => console.log('up'), 200);`,
  );
  const seen: string[] = [];
  witness.stdout?.on('data', (data) => seen.push(...String(data).trim().split('\n')));
  lab.names.set('ok.test', [WEB_IP]);
  lab.names.set('shared.test', [WEB_IP]);
  lab.names.set('other.test', [OTHER_IP]);
  lab.names.set('deep.a.ok.test', [OTHER_IP]);
  lab.names.set('a.ok.test', [OTHER_IP]);
  lab.names.set('inside.test', [PRIVATE_IP]);

  async function open(t: Test, policy: Partial<NetworkPolicy>, options: Partial<NetworkOptions> = {}) {
    const network = await lab.openNetwork(options);
    const slot = await network.allocate();
    await network.create(slot);
    /** Of the daemon that runs now. */
    const owner = { network };
    const denied: string[] = [];
    const onDenied = (text: string) => denied.push(text);
    const records: EgressRecord[] = [];
    const onEgress = (record: EgressRecord) => records.push(record);
    const missed: number[] = [];
    const onMissed = (count: number) => missed.push(count);
    await network.start(slot, { allowlist: [], ...policy, wasServed: false, onDenied, onEgress, onMissed });
    const guest = await lab.boot(slot);
    t.teardown(async () => {
      guest.unplug();
      await owner.network.destroy(slot);
      await owner.network.close();
    });
    const run = async (script: string): Promise<Record<string, unknown>> =>
      JSON.parse(
        await guest.js(
          `${PROGRAM(slot.gateway)} const out = {}; ${script} console.log(JSON.stringify(out));`,
        ),
      );
    const change = (to: Partial<NetworkPolicy>) => network.change(slot, { allowlist: [], ...to });
    /** Runs until the test's end, and prints lines. */
    const background = async (script: string) => {
      const child = await lab.serve(guest.namespace, `(async () => {${PROGRAM(slot.gateway)} ${script}})()`);
      const lines: string[] = [];
      child.stdout?.on('data', (data) => lines.push(...String(data).trim().split('\n')));
      return lines;
    };
    /** Ends the daemon, and starts the next. */
    const replace = async (to: Partial<NetworkPolicy> & { before?: NetworkPolicy }) => {
      await network.close();
      owner.network = await lab.openNetwork();
      owner.network.adopt(slot);
      await owner.network.start(slot, {
        allowlist: [],
        ...to,
        wasServed: true,
        onDenied,
        onEgress,
        onMissed,
      });
      return (next: NetworkPolicy) => owner.network.change(slot, next);
    };
    return { slot, run, change, background, denied, records, missed, network, replace };
  }
  return { lab, seen, open };
}
