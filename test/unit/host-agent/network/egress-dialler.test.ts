// The process that dials for a guest: changes of its policy, its end and that of the daemon, limits, and what else it
// reads. The numbers are those of the attack list (docs/egress-attacks.md).
import '../../../support/network/own-network.ts';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { NetworkSlot } from '../../../../host-agent/src/network/index.ts';
import { FORGED_IP, OTHER_IP, openBoundLab, WEB_IP } from '../../../support/network/bound-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(240_000));
const { lab, seen, open } = await openBoundLab(t);
const RESET = 'ECONNRESET';
const rule = (host: string, protocol: 'tls' | 'http' | 'postgres', ...ports: number[]) => ({
  host,
  protocol,
  ports,
});
const OK = rule('ok.test', 'tls', 443);
const recordOf = ({ namespace }: NetworkSlot) => join(lab.dir, 'egress', namespace.split('/').at(-1) ?? '');
/** 0: none is recorded. */
const pidOf = (slot: NetworkSlot) =>
  existsSync(recordOf(slot)) ? Number(/"pid":(\d+)/.exec(readFileSync(recordOf(slot), 'utf8'))?.[1] ?? 0) : 0;
/** Holds a connection, and prints how it ends. */
const HOLD = (name: string) => `
  const s = tls.connect({ host: '${FORGED_IP}', port: 443, servername: '${name}', rejectUnauthorized: false });
  s.on('data', () => console.log('up')); s.on('error', (e) => console.log(e.code)); s.on('end', () => console.log('ended'));`;

t.test('an allowlist is bound to names on 80 and 443, and open by address on other ports', async (t) => {
  const { run, denied } = await open(t, { allowlist: ['ok.test', 'other.test'] });
  t.match(
    await run(`await resolve('ok.test');
      out.tls = await secure('${FORGED_IP}', 'ok.test'); out.evil = await secure('${WEB_IP}', 'evil.test');
      out.http = (await get('${FORGED_IP}', 'ok.test')).slice(-14); out.evilHttp = (await get('${WEB_IP}', 'evil.test')).slice(0, 12);
      out.raw = await raw('${WEB_IP}', 443, 'SSH-2.0-x\\r\\n'); out.other = await raw('${WEB_IP}', 7, '', { first: true });
      out.crossed = await secure('${WEB_IP}', 'ok.test', 80); out.quic = await udp('${WEB_IP}', 443);`),
    {
      ...{
        tls: 'tls ok.test',
        evil: RESET,
        http: 'http ok.test /',
        evilHttp: 'HTTP/1.1 403',
        raw: RESET,
        other: 'raw',
      },
      quic: 'EHOSTUNREACH',
    },
  );
  await until(() => denied.some((text) => text.includes('a tcp rule opens a port for other protocols')));
});

t.test('69: Postgres asks for TLS first, and is bound to the name then', async (t) => {
  const { run } = await open(t, { rules: [rule('ok.test', 'postgres', 5432)] });
  seen.length = 0;
  const out = await run(`
    const ask = (name) => new Promise((done) => { const s = net.connect(5432, '${FORGED_IP}'); const timer = setTimeout(() => done('timeout'), 4000);
      s.on('error', (e) => done(e.code)); s.on('connect', () => s.write(Buffer.from([0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f])));
      s.once('data', (d) => { if (String(d) !== 'S') return done(String(d)); const c = tls.connect({ socket: s, servername: name, rejectUnauthorized: false });
        c.on('data', (d) => { clearTimeout(timer); done(String(d)); }); c.on('error', (e) => done(e.code)); }); });
    out.ok = await ask('ok.test'); out.evil = await ask('evil.test');
    out.plain = await raw('${WEB_IP}', 5432, '\\x00\\x00\\x00\\x08\\x00\\x03\\x00\\x00'); out.gss = await raw('${WEB_IP}', 5432, '\\x00\\x00\\x00\\x08\\x04\\xd2\\x16\\x30');
    out.direct = await secure('${WEB_IP}', 'evil.test', 5432);`);
  t.match(out, { ok: 'tls ok.test', evil: RESET, plain: RESET, gss: RESET, direct: RESET });
  t.same(
    seen.filter((line) => line.startsWith('tls')),
    [`tls ${WEB_IP} ok.test`],
  );
});

t.test('98, 99: a change closes what it does not allow before it answers, and leaves the rest', async (t) => {
  const { change, background, run, records } = await open(t, { rules: [OK, rule('other.test', 'tls', 443)] });
  const [ok, other] = [await background(HOLD('ok.test')), await background(HOLD('other.test'))];
  await until(() => ok.includes('up') && other.includes('up'));
  t.equal(await change({ rules: [OK] }), 1);
  await until(() => other.includes(RESET));
  t.match(records.at(-1), {
    verdict: 'denied',
    reason: 'the policy changed',
    name: 'other.test',
    generation: 1,
  });
  t.same(
    await run(
      `out.ok = await secure('${WEB_IP}', 'ok.test'); out.other = await secure('${WEB_IP}', 'other.test');`,
    ),
    {
      ok: 'tls ok.test',
      other: RESET,
    },
  );
  t.same(ok, ['up'], 'the other one stays');
  t.equal(await change({ rules: [OK] }), 0);
  t.equal(await change({}), 1);
  await until(() => ok.includes(RESET));
  t.same(await run(`out.ok = await secure('${WEB_IP}', 'ok.test');`), { ok: 'ECONNREFUSED' });
  t.equal(await change({ presets: [{ name: 'internet', rules: [] }] }), 0);
  t.same(await run(`out.any = await secure('${WEB_IP}', 'evil.test');`), { any: 'tls evil.test' });
  t.equal(await change({ rules: [OK] }), 0);
  t.same(
    await run(
      `out.any = await secure('${WEB_IP}', 'evil.test'); out.ok = await secure('${WEB_IP}', 'ok.test');`,
    ),
    {
      any: RESET,
      ok: 'tls ok.test',
    },
  );
});

t.test(
  '106: connections outlive the daemon; new names wait for the next one, and never pass by themselves',
  async (t) => {
    const { background, run, endDaemon, slot } = await open(t, {
      rules: [OK, rule('other.test', 'tls', 443)],
    });
    const held = await background(HOLD('ok.test'));
    await until(() => held.includes('up'));
    const pid = pidOf(slot);
    const startNext = await endDaemon();
    t.same(
      await run(
        `out.judged = await secure('${WEB_IP}', 'ok.test'); out.evil = await secure('${WEB_IP}', 'evil.test'); out.unknown = await raw('${WEB_IP}', 443, hello('other.test'), { ms: 1000 });`,
      ),
      { judged: 'tls ok.test', evil: 'timeout', unknown: 'timeout' },
    );
    const waiting = await background(`console.log(await secure('${WEB_IP}', 'other.test'));`);
    await sleep(300);
    await startNext({ rules: [OK, rule('other.test', 'tls', 443)] });
    await until(() => waiting.includes('tls other.test'));
    t.equal(pidOf(slot), pid, 'it is the same process');
    t.same(held, ['up']);
    t.same(
      await run(
        `out.ok = await secure('${WEB_IP}', 'ok.test'); out.evil = await secure('${WEB_IP}', 'evil.test');`,
      ),
      {
        ok: 'tls ok.test',
        evil: RESET,
      },
    );
  },
);

t.test('106: a change that was cut short is carried out by the next daemon', async (t) => {
  const before = { allowlist: [], rules: [OK] };
  const { background, run, endDaemon } = await open(t, before);
  const held = await background(HOLD('ok.test'));
  await until(() => held.includes('up'));
  const startNext = await endDaemon();
  await startNext({ rules: [rule('other.test', 'tls', 443)], before });
  await until(() => held.includes(RESET));
  t.same(
    await run(
      `out.ok = await secure('${WEB_IP}', 'ok.test'); out.other = await secure('${WEB_IP}', 'other.test');`,
    ),
    {
      ok: RESET,
      other: 'tls other.test',
    },
  );
});

t.test(
  '106: where it is killed its connections end, nothing passes meanwhile, and the next one runs soon',
  async (t) => {
    const { background, run, slot, endDaemon } = await open(t, { rules: [OK] });
    const held = await background(HOLD('ok.test'));
    await until(() => held.includes('up'));
    const first = pidOf(slot);
    process.kill(first, 'SIGKILL');
    await until(() => held.length > 1);
    t.match(held, ['up', /RESET|ended/]);
    await until(() => pidOf(slot) !== first && pidOf(slot) > 0);
    for (let word: unknown; word !== 'tls ok.test'; )
      word = (await run(`out.ok = await secure('${WEB_IP}', 'ok.test');`)).ok;
    const startNext = await endDaemon();
    process.kill(pidOf(slot), 'SIGKILL');
    await sleep(200);
    seen.length = 0;
    t.same(
      await run(
        `out.ok = await secure('${WEB_IP}', 'ok.test'); out.evil = await secure('${WEB_IP}', 'evil.test'); out.http = await get('${WEB_IP}', 'ok.test');`,
      ),
      { ok: 'ECONNREFUSED', evil: 'ECONNREFUSED', http: 'ECONNREFUSED' },
    );
    t.same(seen, []);
    await startNext({ rules: [OK] });
    t.same(await run(`out.ok = await secure('${WEB_IP}', 'ok.test');`), { ok: 'tls ok.test' });
  },
);

t.test(
  '111, 112: it has no privileges and no files, and connects only where a name of the policy leads',
  async (t) => {
    const { run, slot, guest } = await open(t, { rules: [OK] });
    t.same(await run(`out.ok = await secure('${WEB_IP}', 'ok.test');`), { ok: 'tls ok.test' });
    const pid = pidOf(slot);
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    for (const line of [/^CapEff:\s+0{16}$/m, /^CapBnd:/m, /^NoNewPrivs:\s+1$/m, /^Seccomp:\s+2$/m])
      t.match(status, line);
    const uid = /^Uid:\s+(\d+)/m.exec(status)?.[1] ?? '';
    t.not(uid, '0');
    t.same(
      readFileSync(`/proc/${pid}/environ`, 'latin1')
        .split('\0')
        .filter((each) => /SECRET|TOKEN/.test(each)),
      [],
    );
    const links = execFileSync('ls', ['-l', `/proc/${pid}/fd`], { encoding: 'utf8' });
    t.notMatch(links, /lmdb|pipe/);
    // Another program in its place: with its user, in its namespace.
    const connect = (host: string, port: number) =>
      execFileSync(
        'nsenter',
        [
          `--net=${slot.namespace}`,
          'setpriv',
          `--reuid=${uid}`,
          '--clear-groups',
          process.execPath,
          '-e',
          `const s = require('net').connect(${port}, '${host}'); const end = (w) => { console.log(w); process.exit(); };
       s.on('connect', () => end('connected')); s.on('error', (e) => end(e.code)); setTimeout(() => end('timeout'), 1500);`,
        ],
        { encoding: 'utf8' },
      ).trim();
    t.equal(connect(WEB_IP, 443), 'connected', 'control');
    for (const [host, port] of [
      [WEB_IP, 80],
      [OTHER_IP, 443],
      ['93.184.215.1', 22],
      [slot.resolverIp, 1013],
      [slot.guestIp, 22],
    ] as const)
      t.match(connect(host, port), /timeout|EPERM|EHOSTUNREACH/, `${host}:${port}`);
    t.ok(guest);
  },
);

t.test(
  '108: 1,024 connections at once, and 100 new ones a second after 400; another sandbox does not notice',
  async (t) => {
    const [flood, other] = [await open(t, { rules: [OK] }), await open(t, { rules: [OK] })];
    const lines = await flood.background(`let refused = 0, byKernel = 0;
    for (let n = 0; n < 3000; n++) { const s = net.connect(443, '${WEB_IP}'); s.on('error', (e) => e.code === 'ECONNREFUSED' ? byKernel++ : refused++); if (n % 50 === 0) await new Promise((r) => setTimeout(r, 5)); }
    console.log('flooded'); setInterval(() => console.log('refused ' + refused + ' ' + byKernel), 200);`);
    await until(() => lines.includes('flooded'));
    const out = await other.run(
      `out.ms = []; for (let n = 0; n < 10; n++) { const at = Date.now(); out.word = await secure('${WEB_IP}', 'ok.test'); out.ms.push(Date.now() - at); }`,
    );
    t.equal(out.word, 'tls ok.test');
    t.ok(Math.max(...(out.ms as number[])) < scaled(2000), String(out.ms));
    // Most do not get as far as the process: the kernel refuses or drops those over 800, and 200 a second.
    const refused = () => lines.map((line) => /^refused (\d+) (\d+)/.exec(line)?.map(Number) ?? []);
    await until(() => refused().some(([, byProcess = 0, byKernel = 0]) => byProcess > 400 && byKernel > 50));
    await until(() => flood.records.some(({ reason }) => /over the limits/.test(String(reason))));
    const rss = Number(
      /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pidOf(flood.slot)}/status`, 'utf8'))?.[1],
    );
    t.ok(rss < 64 * 1024, `${rss} KiB`);
  },
);

t.test('bytes come through whole both ways, with slow readers and half-closed', async (t) => {
  const { run } = await open(t, { rules: [rule('ok.test', 'http', 80)] });
  await lab.serve(
    lab.internet,
    `require('http').createServer((q, s) => { const hash = require('crypto').createHash('sha256'); q.on('data', (d) => hash.update(d)); q.on('end', () => { s.setHeader('x-hash', hash.digest('hex')); s.end(Buffer.alloc(8e6, 'y')); }); }).listen(80, '93.184.215.254', () => console.log('up'))`,
  );
  lab.names.set('ok.test', ['93.184.215.254']);
  t.teardown(() => lab.names.set('ok.test', [WEB_IP]));
  const out = await run(`
    const body = Buffer.alloc(20e6); for (let n = 0; n < body.length; n++) body[n] = n * 7 % 251;
    const once = (chunked) => new Promise((done) => { const q = require('http').request({ host: '${FORGED_IP}', method: 'POST', headers: { host: 'ok.test', ...(chunked ? {} : { 'content-length': body.length }) } }, async (r) => {
      let n = 0; for await (const d of r) { n += d.length; if (n < 300000) await new Promise((x) => setTimeout(x, 5)); } done([n, r.headers['x-hash']]); });
      q.on('error', (e) => done([e.code])); for (let at = 0; at < body.length; at += 1e6) q.write(body.subarray(at, at + 1e6)); q.end(); });
    out.hash = require('crypto').createHash('sha256').update(body).digest('hex'); out.length = await once(false); out.chunked = await once(true);`);
  t.same(out.length, [8_000_000, out.hash]);
  t.same(out.chunked, [8_000_000, out.hash]);
});
