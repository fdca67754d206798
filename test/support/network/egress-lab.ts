// Guests under rules by port: an internet whose servers say what arrives, and programs in the guests.
import type { Test } from 'tap';
import type { EgressRecord, NetworkOptions, NetworkPolicy } from '../../../host-agent/src/network/index.ts';
import { openGuest, openInternet } from './guests.ts';
import { OTHER_IP, PRIVATE_IP, WEB_IP } from './lab.ts';

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
  /** Each connection or datagram is a line: protocol, address and port. TCP sends a byte each 50 ms, and echoes. */
  const { lab, seen } = await openInternet(
    t,
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
  lab.names.set('ok.test', [WEB_IP]);
  lab.names.set('shared.test', [WEB_IP]);
  lab.names.set('other.test', [OTHER_IP]);
  lab.names.set('deep.a.ok.test', [OTHER_IP]);
  lab.names.set('a.ok.test', [OTHER_IP]);
  lab.names.set('inside.test', [PRIVATE_IP]);

  async function open(t: Test, policy: Partial<NetworkPolicy>, options: Partial<NetworkOptions> = {}) {
    const denied: string[] = [];
    const records: EgressRecord[] = [];
    const missed: number[] = [];
    const guest = await openGuest(t, lab, {
      ...{ policy, network: options, program: ({ gateway }) => PROGRAM(gateway) },
      served: {
        onDenied: (text) => denied.push(text),
        onEgress: (record) => records.push(record),
        onMissed: (count) => missed.push(count),
      },
    });
    /** Ends the daemon, and starts the next; the result changes its policy. */
    const replace = async (to: Partial<NetworkPolicy> & { before?: NetworkPolicy }) => {
      const startNext = await guest.endDaemon();
      await startNext(to);
      return guest.change;
    };
    return { ...guest, denied, records, missed, replace };
  }
  return { lab, seen, open };
}
