// Frames of HTTP/2 that do not fit together, and floods of them, from a guest whose TLS is opened. In the control the
// same bytes reach a server through TLS that is passed on. The numbers are those of the attack list (docs/egress-attacks.md).
import '../../../support/network/own-network.ts';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { openInspectLab } from '../../../support/network/inspect-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(240_000));
const SIZE = 4 * 2 ** 20;
/** One that says which requests are whole, and one that counts and searches bytes, whatever they are. */
const SERVERS = `
const whole = http2.createSecureServer(own);
whole.on('stream', (s, f) => { let size = 0; s.on('error', () => {}); seen('begun', f[':path']);
  s.on('data', (d) => { size += d.length; }); s.on('end', () => { if (s.rstCode === 0 && !s.aborted) seen('whole', f[':path'], size);
    if (s.destroyed) return; s.respond({ ':status': 200 }); s.end(f[':path'] === '/large' ? Buffer.alloc(${SIZE}) : 'ok'); }); });
whole.listen(8446, IP);
tls.createServer({ ...own, ALPNProtocols: ['h2'] }, (s) => { let all = Buffer.alloc(0), count = 0; s.on('error', () => {});
  s.on('data', (d) => { count += d.length; all = Buffer.concat([all, d]).subarray(-100000); if (all.includes('GET /evil')) seen('evil'); });
  s.on('close', () => seen('bytes', count)); }).listen(8447, IP);`;
const { lab, seen, open } = await openInspectLab(t, SERVERS);
const READ = { host: 'ok.test', protocol: 'tls', ports: [8446], tls: 'inspect' } as const;
const PASSED = { host: 'ok.test', protocol: 'tls', ports: [8447] } as const;

/** `send` resolves with what ends the connection, and `others`: the same guest's next request by another one. */
const CLIENT = `
const frame = (type, flags, stream, payload = Buffer.alloc(0)) => { const head = Buffer.alloc(9); head.writeUIntBE(payload.length, 0, 3); head[3] = type; head[4] = flags; head.writeUInt32BE(stream, 5); return Buffer.concat([head, payload]); };
const text = (value) => { const bytes = Buffer.from(value), length = bytes.length < 127 ? Buffer.from([bytes.length]) : (() => { const out = [127]; let rest = bytes.length - 127; while (rest >= 128) { out.push((rest & 127) | 128); rest >>= 7; } out.push(rest); return Buffer.from(out); })(); return Buffer.concat([length, bytes]); };
const field = (name, value) => Buffer.concat([Buffer.from([0]), text(name), text(value)]);
const head = (path, method = 'GET', ...more) => Buffer.concat([Buffer.from([0x87]), field(':method', method), field(':path', path), field(':authority', 'ok.test:8446'), ...more.map(([n, v]) => field(n, v))]);
const [DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW, CONTINUATION] = [0, 1, 2, 3, 4, 6, 8, 9];
const u32 = (value) => { const out = Buffer.alloc(4); out.writeUInt32BE(value); return out; };
const settings = (...pairs) => frame(SETTINGS, 0, 0, Buffer.concat(pairs.map(([id, value]) => Buffer.concat([Buffer.from([0, id]), u32(value)]))));
const hello = Buffer.concat([Buffer.from('PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'), settings()]);
const RESETS = 3000, FRAMES = 20000;
const ATTACKS = {
  lengthShort: () => [frame(HEADERS, 4, 1, head('/short', 'POST', ['content-length', '5'])), frame(DATA, 1, 1, Buffer.from('helloGET /evil HTTP/1.1\\r\\nHost: ok.test\\r\\n\\r\\n'))],
  lengthLong: () => [frame(HEADERS, 4, 1, head('/long', 'POST', ['content-length', '50'])), frame(DATA, 1, 1, Buffer.from('GET /evil'))],
  afterEnd: () => [frame(HEADERS, 5, 1, head('/end', 'POST')), frame(DATA, 1, 1, Buffer.from('GET /evil HTTP/1.1\\r\\n\\r\\n'))],
  headersTwice: () => [frame(HEADERS, 4, 1, head('/twice', 'POST')), frame(HEADERS, 4, 1, head('/twice2', 'POST')), frame(DATA, 1, 1, Buffer.from('GET /evil'))],
  unopened: () => [frame(DATA, 1, 1, Buffer.from('GET /evil'))],
  evenStream: () => [frame(HEADERS, 5, 2, head('/even'))],
  rapidReset: () => Array.from({ length: RESETS }, (_, at) => Buffer.concat([frame(HEADERS, 5, 2 * at + 1, head('/reset')), frame(RESET, 0, 2 * at + 1, u32(8))])),
  continuation: () => [frame(HEADERS, 0, 1, head('/continued')), ...Array.from({ length: FRAMES }, () => frame(CONTINUATION, 0, 1, field('x', 'y')))],
  emptyContinuation: () => [frame(HEADERS, 0, 1, head('/continued')), ...Array.from({ length: FRAMES }, () => frame(CONTINUATION, 0, 1))],
  hpackBomb: () => [frame(HEADERS, 5, 1, Buffer.concat([head('/bomb'), Buffer.from([0x40]), text('x'), text('y'.repeat(3900)), Buffer.alloc(12000, 0xbe)]))],
  manyFields: () => [frame(HEADERS, 5, 1, head('/many', 'GET', ...Array.from({ length: 1500 }, (_, at) => ['a' + at, ''])))],
  settingsFlood: () => Array.from({ length: FRAMES }, () => settings([4, 65535])),
  pingFlood: () => Array.from({ length: FRAMES }, () => frame(PING, 0, 0, Buffer.alloc(8))),
  priorities: () => Array.from({ length: FRAMES }, (_, at) => frame(PRIORITY, 0, 2 * at + 1, Buffer.concat([u32(2 * at + 3), Buffer.from([255])]))),
  emptyData: () => [frame(HEADERS, 4, 1, head('/empty', 'POST')), ...Array.from({ length: FRAMES }, () => frame(DATA, 0, 1))],
  windowOverflow: () => [frame(WINDOW, 0, 0, u32(0x7fffffff)), frame(WINDOW, 0, 0, u32(0x7fffffff))],
  unknownFrames: () => Array.from({ length: FRAMES }, () => frame(77, 0, 0, Buffer.alloc(8))),
};
/** With \`deaf\` nothing is read that comes back. */
const send = (name, { port = 8446, deaf = false, ms = deaf ? 1500 : 6000 } = {}) => new Promise((done) => {
  const s = tls.connect({ host: '93.184.215.14', port, servername: 'ok.test', ca, rejectUnauthorized: port === 8446, ALPNProtocols: ['h2'] });
  const timer = setTimeout(() => { s.destroy(); done(answers === '' ? 'open' : 'open ' + answers); }, ms);
  let answers = '', bytes = Buffer.alloc(0);
  const end = (word) => { clearTimeout(timer); s.destroy(); done(word + answers); };
  if (!deaf) s.on('data', (d) => { bytes = Buffer.concat([bytes, d]);
    while (bytes.length >= 9 && bytes.length >= 9 + bytes.readUIntBE(0, 3)) { const type = bytes[3], length = bytes.readUIntBE(0, 3);
      if (type === RESET) return end('reset'); if (type === 7) { answers += ' goaway'; } if (type === HEADERS) answers += ' answered ' + bytes.subarray(9, 9 + length).toString('latin1').replace(/[^!-~]/g, '.').slice(0, 12);
      bytes = bytes.subarray(9 + length); } });
  s.on('error', (e) => end(e.code)); s.on('end', () => end('ended')); s.on('close', () => end('closed'));
  const parts = ATTACKS[name](); let at = 0;
  const more = () => { while (at < parts.length) { const next = Buffer.concat(parts.slice(at, at += 500)); if (s.destroyed || !s.write(next)) break; } if (at < parts.length && !s.destroyed) s.once('drain', more); else if (port === 8447) s.end(); };
  s.on('secureConnect', () => { s.write(hello); more(); });
});
const session = () => { const c = http2.connect('https://ok.test:8446', { createConnection: () => tls.connect({ host: '93.184.215.14', port: 8446, servername: 'ok.test', ca, ALPNProtocols: ['h2'] }) }); c.on('error', () => {}); return c; };
const get = (c, path) => new Promise((done) => { const q = c.request({ ':path': path, ':authority': 'ok.test:8446' }); let status; q.on('response', (f) => { status = f[':status']; }); q.resume(); q.on('error', (e) => done(e.code)); q.on('close', () => done(status)); });
`;

type Opened = Awaited<ReturnType<typeof open>>;
const pidOf = ({ slot }: Opened): number => {
  const record = join(lab.dir, 'egress', `${basename(slot.namespace)}.gateway`);
  return (JSON.parse(readFileSync(record, 'utf8').split('\n')[1] ?? '{}') as { pid: number }).pid;
};
const residentKib = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);

t.test('61: frames that do not fit together are no request for a server', async (t) => {
  const opened = await open(t, { rules: [READ, PASSED] });
  seen.length = 0;
  const out = await opened.run(`${CLIENT}
    const c = session(); out.before = await get(c, '/before'); out.attacks = {}; out.control = {};
    for (const name of ['lengthShort', 'lengthLong', 'afterEnd', 'headersTwice', 'unopened', 'evenStream']) {
      out.attacks[name] = await send(name, { ms: 1500 }); await send(name, { port: 8447, ms: 1500 }); }
    out.after = await get(c, '/after'); c.destroy();`);
  t.match(out, { before: 200, after: 200 }, 'another connection goes on');
  for (const [name, word] of Object.entries(out.attacks as Record<string, string>)) {
    t.comment(`${name}: ${word}`);
    t.match(word, /reset|goaway|ended|closed|ECONNRESET/, name);
  }
  const arrived = seen.filter((line) => line.startsWith('whole'));
  t.same(
    arrived.filter((line) => !/^whole \/end 0$/.test(line)),
    ['whole /before 0', 'whole /after 0'],
    'none is whole but the one that was, without what came behind its end',
  );
  t.ok(seen.filter((line) => line === 'evil').length >= 4, 'the control: these bytes reach a server');
});

t.test(
  '62: floods end their connection, or cost others nothing, and what they keep has a bound',
  async (t) => {
    const opened = await open(t, { rules: [READ, PASSED] });
    t.match(
      await opened.run(`${CLIENT} const c = session(); out.first = await get(c, '/first'); c.destroy();`),
      {
        first: 200,
      },
    );
    const pid = pidOf(opened);
    const before = residentKib(pid);
    const FLOODS = `['rapidReset', 'continuation', 'emptyContinuation', 'hpackBomb', 'manyFields', 'settingsFlood', 'pingFlood', 'priorities', 'emptyData', 'windowOverflow', 'unknownFrames']`;
    seen.length = 0;
    const out = await opened.run(`${CLIENT}
    const c = session(); out.floods = {}; out.others = [];
    for (const name of ${FLOODS}) for (const deaf of ['pingFlood', 'settingsFlood', 'rapidReset'].includes(name) ? [false, true] : [false]) {
      let isOver = false; const flood = send(name, { deaf }).finally(() => { isOver = true; });
      do out.others.push(await get(c, '/other')); while (!isOver);
      out.floods[name + (deaf ? ' deaf' : '')] = await flood;
    }
    out.after = await get(c, '/after'); c.destroy();`);
    for (const [name, word] of Object.entries(out.floods as Record<string, string>))
      t.comment(`${name}: ${word}`);
    t.same([...new Set(out.others as number[])], [200], 'requests of another connection go on');
    t.equal(out.after, 200);
    t.equal(pidOf(opened), pid, 'the gateway lives');
    const begun = seen.filter((line) => line === 'begun /reset').length;
    t.comment(`${begun} of the reset streams reached the server; ${before} kB, then ${residentKib(pid)} kB`);
    t.ok(begun < 1000, `${begun} of 6000 reset streams reached the server`);
    t.notOk(
      seen.some((line) => /^begun \/(continued|bomb|many)/.test(line)),
      'no head without an end',
    );
    t.ok(residentKib(pid) < before + 150_000, `${before} kB, then ${residentKib(pid)} kB`);
    const floods = out.floods as Record<string, string>;
    for (const name of ['rapidReset', 'continuation', 'emptyContinuation', 'windowOverflow'])
      t.match(floods[name], /goaway|ended|closed|ECONNRESET|EPIPE/, name);
    await opened.run(`${CLIENT} for (const name of ${FLOODS}) await send(name, { port: 8447, ms: 20000 });`);
    const counts = () => seen.filter((line) => /^bytes \d+$/.test(line)).map((line) => Number(line.slice(6)));
    await until(() => counts().length >= 11);
    t.ok(Math.min(...counts()) > 25, 'the control: each flood reaches a server');
    t.ok(counts().filter((count) => count > 100_000).length >= 8, 'the control: most are large');
  },
);

t.test('62: a window of 0 holds up only its own streams, and little is kept for them', async (t) => {
  const opened = await open(t, { rules: [READ] });
  t.match(
    await opened.run(`${CLIENT} const c = session(); out.first = await get(c, '/first'); c.destroy();`),
    {
      first: 200,
    },
  );
  const pid = pidOf(opened);
  const stalled = await opened.background(`${CLIENT}
    for (let count = 0; count < 4; count++) { const s = tls.connect({ host: '93.184.215.14', port: 8446, servername: 'ok.test', ca, ALPNProtocols: ['h2'] }); s.on('error', () => {}); s.resume();
      s.on('secureConnect', () => { s.write(Buffer.from('PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n')); s.write(settings([4, 0])); for (let at = 0; at < 60; at++) s.write(frame(HEADERS, 5, 2 * at + 1, head('/large'))); console.log('asked'); }); }`);
  await until(() => stalled.filter((line) => line === 'asked').length === 4);
  const asked = () => seen.filter((line) => line === 'whole /large 0').length;
  await until(() => asked() >= 4, 'requests at the server');
  const out = await opened.run(
    `${CLIENT} const c = session(); out.others = []; for (let at = 0; at < 50; at++) out.others.push(await get(c, '/other')); out.large = await get(c, '/large'); c.destroy();`,
  );
  t.same([...new Set(out.others as number[])], [200]);
  t.equal(out.large, 200, 'the control: one that reads gets all of it');
  t.equal(pidOf(opened), pid, 'the gateway lives');
  t.comment(`${asked()} answers wait, ${residentKib(pid)} kB resident`);
  t.ok(residentKib(pid) < 320 * 1024, `${residentKib(pid)} kB resident`);
});
