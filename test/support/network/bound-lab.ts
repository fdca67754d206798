// Guests whose connections are bound to names: an internet whose servers say what arrives, and programs in the guests.
import type { Test } from 'tap';
import type { NetworkOptions, NetworkPolicy } from '../../../host-agent/src/network/index.ts';
import { makeCertificate } from './certificate.ts';
import { openGuest, openInternet } from './guests.ts';
import { OTHER_IP, WEB_IP } from './lab.ts';

export { OTHER_IP, WEB_IP };
/** Leads nowhere: what a guest takes for the address of a name. */
export const FORGED_IP = '93.184.215.99';

/** Functions of a guest's program, which return a word. */
const PROGRAM = (gateway: string) => `
const net = require('net'); const tls = require('tls'); const dgram = require('dgram');
const dns = new (require('dns').promises.Resolver)({ timeout: 2000, tries: 2 });
dns.setServers(['${gateway}']);
const resolve = (name) => dns.resolve4(name).catch((e) => e.code);
/** What comes back for bytes, which are sent in parts of some size. */
const raw = (host, port, bytes, { size = 0, ms = 3000, gapMs = 0, first = false } = {}) => new Promise((done) => {
  let text = '';
  const s = net.connect({ port, host, noDelay: true, allowHalfOpen: true });
  const end = (word) => { clearTimeout(timer); s.destroy(); done(word); };
  const timer = setTimeout(() => end(text === '' ? 'timeout' : text), ms);
  s.on('data', (d) => { text += d.toString('latin1'); if (first) end(text); });
  s.on('error', (e) => end(text === '' ? e.code : text + '!' + e.code)); s.on('end', () => end(text === '' ? 'ended' : text));
  s.on('connect', async () => {
    const all = Buffer.from(bytes, 'latin1');
    if (size === 0) return void s.write(all);
    for (let at = 0; at < all.length; at += size) {
      s.write(all.subarray(at, at + size));
      await new Promise((next) => gapMs > 0 ? setTimeout(next, gapMs) : setImmediate(next));
    }
  });
});
/** The name that the server saw. */
const secure = (host, servername, port = 443, options = {}) => new Promise((done) => {
  const s = tls.connect({ host, port, servername, rejectUnauthorized: false, ...options });
  const end = (word) => { clearTimeout(timer); s.destroy(); done(word); };
  const timer = setTimeout(() => end('timeout'), 5000);
  s.on('data', (d) => end(String(d))); s.on('error', (e) => end(e.code ?? e.message)); s.on('end', () => end('ended'));
});
const get = (host, name, path = '/') => raw(host, 80, 'GET ' + path + ' HTTP/1.1\\r\\nHost: ' + name + '\\r\\nConnection: close\\r\\n\\r\\n');
const udp = (host, port) => new Promise((done) => {
  const s = dgram.createSocket('udp4');
  const end = (word) => { clearTimeout(timer); s.close(); done(word); };
  const timer = setTimeout(() => end('timeout'), 2000);
  s.on('error', (e) => end(e.code)); s.on('message', () => end('open'));
  s.connect(port, host, () => s.send('x'));
});
/** A ClientHello, without the head of its record. */
const message = (...extensions) => {
  const vector = (bytes, body) => { const l = Buffer.alloc(4); l.writeUInt32BE(body.length); return Buffer.concat([l.subarray(4 - bytes), body]); };
  const body = Buffer.concat([Buffer.from([3, 3]), Buffer.alloc(32, 7), vector(1, Buffer.alloc(0)), vector(2, Buffer.from([0x13, 1])),
    vector(1, Buffer.alloc(1)), vector(2, Buffer.concat(extensions))]);
  return Buffer.concat([Buffer.from([1]), vector(3, body)]);
};
const extension = (type, body) => { const h = Buffer.alloc(4); h.writeUInt16BE(type); h.writeUInt16BE(body.length, 2); return Buffer.concat([h, body]); };
const sni = (...names) => {
  const list = Buffer.concat(names.map((name) => { const h = Buffer.alloc(3); h.writeUInt16BE(Buffer.byteLength(name, 'latin1'), 1); return Buffer.concat([h, Buffer.from(name, 'latin1')]); }));
  const l = Buffer.alloc(2); l.writeUInt16BE(list.length); return extension(0, Buffer.concat([l, list]));
};
const records = (m, size = 16384) => {
  const out = [];
  for (let at = 0; at < m.length; at += size) { const part = m.subarray(at, at + size); out.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part); }
  return Buffer.concat(out).toString('latin1');
};
const hello = (...names) => records(message(sni(...names)));
`;

export async function openBoundLab(t: Test) {
  const { key, cert } = makeCertificate();
  /** Each connection is a line: what it is, the address, and the name that it says. */
  const { lab, seen } = await openInternet(
    t,
    `const tls = require('tls'), net = require('net'), http = require('http');
     const seen = (...words) => console.log(words.join(' ').replace(/[^!-~ ]/g, '.'));
     const options = ${JSON.stringify({ key, cert })};
     const secure = tls.createServer(options, (s) => { s.on('error', () => {}); seen('tls', s.localAddress, s.servername); s.write('tls ' + s.servername);
       s.on('data', (d) => { if (String(d) !== 'stay') s.end('echo ' + d); }); });
     const web = http.createServer((q, s) => { seen('http', q.socket.localAddress, q.headers.host, q.method, q.url);
       if (q.url === '/slow') return void s.write('begin');
       q.resume(); q.on('end', () => s.end('http ' + q.headers.host + ' ' + q.url)); });
     web.on('upgrade', (q, s) => { seen('upgrade', q.headers.host, q.headers.upgrade); s.on('error', () => {});
       s.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n\\r\\n'); s.on('data', (d) => { seen('frame', d); s.write('frame ' + d); }); });
     web.on('connection', (s) => seen('to', s.localAddress, s.localPort));
     secure.on('connection', (s) => { seen('to', s.localAddress, s.localPort); });
     const database = net.createServer((s) => { s.on('error', () => {}); seen('to', s.localAddress, 5432);
       s.once('data', (d) => { s.write(d.length === 8 ? 'S' : 'N'); s.pause(); secure.emit('connection', s); s.resume(); }); });
     const echo = net.createServer((s) => { s.on('error', () => {}); seen('raw', s.localAddress, s.localPort); s.write('raw'); s.on('data', (d) => seen('data', d)); });
     for (const host of ['${WEB_IP}', '${OTHER_IP}']) {
       net.createServer((s) => { s.on('error', () => {}); secure.emit('connection', s); }).listen(443, host); tls.createServer(options, (s) => { s.on('error', () => {}); s.end('tls ' + s.servername); }).listen(8443, host);
       http.createServer((q, s) => s.end('http ' + q.headers.host)).listen(8080, host);
       net.createServer((s) => { s.on('error', () => {}); web.emit('connection', s); }).listen(80, host);
       net.createServer((s) => { s.on('error', () => {}); database.emit('connection', s); }).listen(5432, host);
       net.createServer((s) => { s.on('error', () => {}); echo.emit('connection', s); }).listen(7, host);
     }
     // A server that asks for a second hello, and says what comes then.
     const retry = Buffer.concat([Buffer.from([22, 3, 3, 0, 56, 2, 0, 0, 52, 3, 3]),
       Buffer.from('cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c', 'hex'), Buffer.alloc(18)]);
     net.createServer((s) => { s.on('error', () => {}); s.once('data', () => { s.write(retry); s.on('data', (d) => { seen('second', d.toString('latin1')); s.write('second'); }); }); })
       .listen(8444, '${WEB_IP}');
     const u = require('dgram').createSocket('udp4');
     u.on('message', (m, from) => { seen('udp'); u.send(m, from.port, from.address); }); u.bind(443, '${WEB_IP}');
     setTimeout(() => console.log('up'), 300);`,
  );
  // ok.test and evil.test share an address.
  for (const name of ['ok.test', 'evil.test', 'a.ok.test', 'xn--bcher-kva.test'])
    lab.names.set(name, [WEB_IP]);
  lab.names.set('other.test', [OTHER_IP]);
  lab.names.set('inside.test', ['10.9.9.9']);

  async function open(t: Test, policy: Partial<NetworkPolicy>, options: Partial<NetworkOptions> = {}) {
    const denied: string[] = [];
    const records: Record<string, unknown>[] = [];
    const guest = await openGuest(t, lab, {
      ...{ policy, network: options, program: ({ gateway }) => PROGRAM(gateway) },
      served: {
        onDenied: (text) => denied.push(text),
        onEgress: (record) => {
          // Questions for names are not connections.
          if (record.protocol !== 'dns' && !('packet' in record)) records.push({ ...record });
        },
        generation: 1,
      },
    });
    return { ...guest, denied, records };
  }
  return { lab, seen, open };
}
