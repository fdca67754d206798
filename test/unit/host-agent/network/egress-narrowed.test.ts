// A changed policy closes connections that were bound to names and that it does not allow, also where it has the name
// and the port; and a shut one closes all, whatever the process that holds them does.
import '../../../support/network/own-network.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { FORGED_IP, OTHER_IP, openBoundLab, WEB_IP } from '../../../support/network/bound-lab.ts';
import { sh } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(120_000));
const { lab, open } = await openBoundLab(t);
const rule = (protocol: 'tls' | 'http', ...ports: number[]) => ({ host: 'ok.test', protocol, ports });
const HTTP = (port: number) => `const s = net.connect(${port}, '${FORGED_IP}');
  s.on('connect', () => s.write('GET /1 HTTP/1.1\\r\\nHost: ok.test\\r\\n\\r\\n'));
  s.on('data', (d) => console.log('up')); s.on('error', (e) => console.log(e.code)); s.on('end', () => console.log('ended'));`;
/** With an ECH extension (of no key). */
const ECH = `const s = net.connect(8444, '${FORGED_IP}');
  s.on('connect', () => s.write(Buffer.from(records(message(sni('ok.test'), extension(0xfe0d, Buffer.alloc(40)))), 'latin1')));
  s.on('data', () => console.log('up')); s.on('error', (e) => console.log(e.code)); s.on('end', () => console.log('ended'));`;

t.test('http where only tls is allowed now', async (t) => {
  const { background, change } = await open(t, { rules: [rule('http', 80)] });
  const lines = await background(HTTP(80));
  await until(() => lines.includes('up'));
  t.equal(await change({ rules: [rule('http', 80), rule('tls', 443)] }), 0, 'it stays while it is allowed');
  t.equal(await change({ rules: [rule('tls', 80)] }), 1);
  await until(() => lines.includes('ECONNRESET'));
});

t.test('http of an allowlist, where only tls is allowed now', async (t) => {
  const { background, change } = await open(t, { allowlist: ['ok.test'] });
  const lines = await background(HTTP(80));
  await until(() => lines.includes('up'));
  t.equal(await change({ rules: [rule('tls', 80, 443)] }), 1);
  await until(() => lines.includes('ECONNRESET'));
});

t.test('encrypted names that are refused now', async (t) => {
  const { background, change } = await open(t, { rules: [rule('tls', 8444)] });
  const lines = await background(ECH);
  await until(() => lines.length > 0);
  t.same(lines, ['up'], 'control');
  t.equal(await change({ rules: [{ ...rule('tls', 8444), ech: 'refuse' }] }), 1);
  await until(() => lines.includes('ECONNRESET'));
});

t.test('a port that rules bind stays open by the addresses of an allowlist', async (t) => {
  const { run } = await open(t, { allowlist: ['other.test'], rules: [rule('tls', 7, 443)] });
  t.same(
    await run(`await resolve('other.test'); out.seven = await raw('${OTHER_IP}', 7, '', { first: true });
      out.forged = await raw('${WEB_IP}', 7, 'SSH-2.0-x\\r\\n', { first: true }); out.web = await secure('${OTHER_IP}', 'evil.test');
      out.ok = await secure('${FORGED_IP}', 'ok.test');`),
    { seven: 'raw', forged: 'ECONNRESET', web: 'ECONNRESET', ok: 'tls ok.test' },
  );
});

t.test('a shut policy needs no help of the process', async (t) => {
  const { background, run, owner, slot, change } = await open(t, { rules: [rule('http', 80)] });
  const lines = await background(
    `${HTTP(80)} setInterval(() => s.write('GET /2 HTTP/1.1\\r\\nHost: ok.test\\r\\n\\r\\n'), 50);`,
  );
  await until(() => lines.includes('up'));
  const record = join(lab.dir, 'egress', slot.namespace.split('/').at(-1) ?? '');
  const pid = Number(/"pid":(\d+)/.exec(readFileSync(record, 'utf8'))?.[1]);
  process.kill(pid, 'SIGSTOP');
  await owner.network.shut(slot);
  t.throws(() => process.kill(pid, 0), 'it is over');
  const rules = await sh('nft list table ip sandbox', slot.namespace);
  t.notMatch(rules, /redirect|skuid != \d/);
  const count = lines.length;
  await sleep(500);
  t.ok(lines.length <= count + 1, 'no more answers');
  t.not((await run(`out.ok = await get('${WEB_IP}', 'ok.test');`)).ok, 'http ok.test /');
  await change({ rules: [rule('http', 80)] });
  t.match(await run(`out.ok = await get('${WEB_IP}', 'ok.test');`), { ok: /http ok.test \/$/ });
});
