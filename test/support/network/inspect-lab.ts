// An internet of HTTPS servers with certificates of an authority that the gateway knows, and guests that trust the
// authority of their sandbox.
import type { Test } from 'tap';
import { type Authority, Leaves, makeAuthority } from '../../../host-agent/src/network/authority/index.ts';
import type { NetworkOptions, NetworkPolicy } from '../../../host-agent/src/network/index.ts';
import type { ServeOptions } from '../../../host-agent/src/network/network-options.ts';
import { HELPERS } from '../helper-programs.ts';
import { openGuest, openInternet } from './guests.ts';
import { toGatewayCommand, WEB_IP } from './lab.ts';

export { WEB_IP };

/** Functions of a guest's program. */
const PROGRAM = (ca: string) => `
const tls = require('tls'), net = require('net'), http = require('http'), https = require('https'), http2 = require('http2');
const ca = ${JSON.stringify(ca)};
/** Status, first bytes, by HTTP/1. */
const ask = (method, path, { host = 'ok.test', name = 'ok.test', port = 443, headers = {}, body, ...options } = {}) => new Promise((done) => {
  const q = https.request({ host: '${WEB_IP}', port, servername: name, ca, method, path, headers: { host, ...headers }, agent: false, timeout: 8000, ...options }, (r) => {
    let text = ''; r.on('data', (d) => { text += d; }); r.on('end', () => done(r.statusCode + ' ' + text.trim())); r.on('error', (e) => done('cut ' + text.length));
  });
  q.on('timeout', () => { q.destroy(); done('timeout'); });
  q.on('error', (e) => done(e.code ?? e.message)); q.end(body);
});
/** What comes back for bytes within TLS. */
const within = (bytes, { name = 'ok.test', port = 443, ms = 2500, alpn, ...options } = {}) => new Promise((done) => {
  let text = '';
  const s = tls.connect({ host: '${WEB_IP}', port, servername: name, ca, ...(alpn && { ALPNProtocols: alpn }), ...options }, () => s.write(Buffer.from(bytes, 'latin1')));
  const end = (word) => { clearTimeout(timer); s.destroy(); done(word); };
  const timer = setTimeout(() => end(text === '' ? 'timeout' : text), ms);
  s.on('data', (d) => { text += d.toString('latin1'); }); s.on('error', (e) => end(text === '' ? e.code : text)); s.on('end', () => end(text === '' ? 'ended' : text));
});
const statuses = (text) => String(text).match(/HTTP.1.1 \\d+/g)?.map((each) => each.slice(9)).join(' ') ?? text;
`;

/** `gateway`: absent: the one of the sources. */
export async function openInspectLab(t: Test, script = '', gateway = HELPERS.gateway) {
  const [world, sandbox] = await Promise.all([makeAuthority('world'), makeAuthority('sbx_test')]);
  const leaves = new Leaves(world);
  const of = async (name: string) => leaves.get(name);
  const certificates = { 'ok.test': await of('ok.test'), 'other.test': await of('other.test') };
  const unknown = await new Leaves(await makeAuthority('unknown')).get('ok.test');
  const { lab, seen } = await openInternet(
    t,
    `const tls = require('tls'), net = require('net'), http = require('http'), https = require('https'), http2 = require('http2');
     const seen = (...words) => console.log(words.join(' ').replace(/[^!-~ ]/g, '.'));
     const certificates = ${JSON.stringify(certificates)}, unknown = ${JSON.stringify(unknown)}, IP = '${WEB_IP}';
     const own = { ...certificates['ok.test'], SNICallback: (name, done) => done(null, tls.createSecureContext(certificates[name] ?? certificates['ok.test'])) };
     const answer = (word) => (q, s) => { seen(word, q.headers[':authority'] ?? q.headers.host, q.method, q.url);
       let size = 0; q.on('data', (d) => { size += d.length; });
       q.on('end', () => s.end([word, q.headers[':authority'] ?? q.headers.host, q.method, q.url, size || ''].join(' '))); };
     process.on('uncaughtException', (e) => seen('error', e.code ?? e.message));
     https.createServer(own, answer('h1')).listen(443, IP);
     http2.createSecureServer({ ...own, allowHTTP1: true }, answer('h2')).listen(8443, IP);
     https.createServer(unknown, answer('h1')).listen(8444, IP);
     ${script}
     setTimeout(() => console.log('up'), 300);`,
  );
  for (const name of ['ok.test', 'evil.test', 'other.test']) lab.names.set(name, [WEB_IP]);

  async function open(
    t: Test,
    policy: Partial<NetworkPolicy>,
    authority: Authority | undefined = sandbox,
    secrets?: ServeOptions['secrets'],
    options: Partial<NetworkOptions> = {},
  ) {
    const command = await toGatewayCommand(gateway);
    const records: Record<string, unknown>[] = [];
    const guest = await openGuest(t, lab, {
      ...{ policy, program: () => PROGRAM(sandbox.certificate) },
      network: { gateway: { command, roots: world.certificate }, ...options },
      served: {
        generation: 1,
        authority: async () => authority,
        secrets,
        onDenied: () => undefined,
        onEgress: (record) => {
          if (record.protocol !== 'dns') records.push({ ...record });
        },
      },
    });
    return { ...guest, records, authority: async () => authority };
  }
  return { lab, seen, open, roots: world.certificate, certificates };
}
