// The process that reads requests: what it can reach, how it starts and ends, and what a change of the policy closes.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import '../../../support/network/own-network.ts';
import t from 'tap';
import { openInspectLab } from '../../../support/network/inspect-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(240_000));
const SIZE = 64 * 1024 * 1024;
/** Endless answers, and bodies of any size. */
const SERVERS = `
const stream = https.createServer(own, (q, s) => { seen('stream', q.method, q.url);
  if (q.url === '/sse') { s.writeHead(200, { 'content-type': 'text/event-stream' }); s.write('data: 0\\n\\n'); let n = 0; const timer = setInterval(() => s.write('data: ' + ++n + '\\n\\n'), 100); s.on('close', () => { clearInterval(timer); seen('sse closed'); }); return; }
  if (q.url === '/down') { s.writeHead(200, { 'content-length': ${SIZE} }); let left = ${SIZE}; const more = () => { while (left > 0) { const part = Buffer.alloc(Math.min(left, 65536)); left -= part.length; if (!s.write(part)) return void s.once('drain', more); } s.end(); }; return more(); }
  let size = 0; q.on('data', (d) => { size += d.length; }); q.on('end', () => s.end('size ' + size)); q.on('error', () => {}); });
stream.listen(9447, IP);`;
const { lab, seen, open } = await openInspectLab(t, SERVERS);
const READ = { host: 'ok.test', protocol: 'tls', ports: [443, 9447], tls: 'inspect' } as const;

type Opened = Awaited<ReturnType<typeof open>>;
/** Undefined while there is none. */
function pidOf({ slot }: Opened, suffix = '.gateway'): number | undefined {
  try {
    const [, line = '{}'] = readFileSync(
      join(lab.dir, 'egress', basename(slot.namespace) + suffix),
      'utf8',
    ).split('\n');
    return (JSON.parse(line) as { pid?: number }).pid;
  } catch {
    return undefined;
  }
}
const FOLLOW = `const q = https.get({ host: '93.184.215.14', port: 9447, servername: 'ok.test', ca, path: '/sse', headers: { host: 'ok.test:9447' }, agent: false }, (r) => {
  r.on('data', () => console.log('event')); r.on('error', () => {}); r.on('close', () => console.log('closed')); }); q.on('error', () => console.log('failed'));`;

t.test('111: it has a user, a root and a network of its own, with nothing in them', async (t) => {
  const opened = await open(t, { rules: [READ] });
  t.equal(pidOf(opened), undefined, 'no connection, no process');
  t.match(await opened.run(`out.get = await ask('GET', '/');`), { get: '200 h1 ok.test GET /' });
  const pid = pidOf(opened) ?? 0;
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  t.match(status, /^Seccomp:\s2$/m);
  t.match(status, /^CapEff:\s0+$/m);
  t.match(status, /^NoNewPrivs:\s1$/m);
  t.notMatch(status, /^Uid:\s0/m);
  const links = execFileSync('nsenter', [`--net=/proc/${pid}/ns/net`, 'ip', '-o', 'link'])
    .toString()
    .trim();
  t.match(links, /^1: lo: <LOOPBACK> [^\n]*$/, 'not even a loopback that is up');
  t.not(readlinkSync(`/proc/${pid}/ns/net`), readlinkSync(`/proc/${pidOf(opened, '')}/ns/net`));
  const root = readdirSync(`/proc/${pid}/root`);
  t.notOk(
    root.some((name) => ['etc', 'home', 'proc-all', 'var', 'sys'].includes(name)),
    root.join(),
  );
  t.equal(readFileSync(`/proc/${pid}/environ`, 'utf8'), '');
  t.notMatch(readFileSync(`/proc/${pid}/cmdline`, 'utf8'), /BEGIN/);
});

t.test('98: a change ends what it does not allow, and nothing else', async (t) => {
  const opened = await open(t, { rules: [{ ...READ, paths: ['/sse', '/'] }] });
  const lines = await opened.background(FOLLOW);
  await until(() => lines.includes('event'));
  t.equal(await opened.change({ rules: [{ ...READ, paths: ['/sse'] }] }), 0);
  const before = lines.length;
  await until(() => lines.length > before + 2);
  t.equal(await opened.change({ rules: [{ ...READ, paths: ['/'] }] }), 1);
  await until(() => lines.includes('closed'));
  await until(() => seen.includes('sse closed'));
  t.match(
    await opened.run(
      `out.get = await ask('GET', '/'); out.sse = await ask('GET', '/sse', { port: 9447, host: 'ok.test:9447' });`,
    ),
    { get: /^200/, sse: /^403/ },
  );
  const again = await opened.background(FOLLOW.replace("'/sse'", "'/'"));
  await opened.change({ rules: [{ host: 'ok.test', protocol: 'tls', ports: [443] }] });
  t.notMatch(
    await opened.run(`out.get = await ask('GET', '/');`),
    { get: /^200/ },
    'the guest sees the server’s own certificate',
  );
  t.equal(again.includes('event'), false);
});

t.test('106: killed, its connections end, and the next one starts it again', async (t) => {
  const opened = await open(t, { rules: [READ] });
  for (const suffix of ['.gateway', '']) {
    const lines = await opened.background(FOLLOW);
    await until(() => lines.includes('event'));
    const pid = pidOf(opened, suffix) ?? 0;
    process.kill(pid, 'SIGKILL');
    await until(() => lines.some((line) => line === 'closed' || line === 'failed'));
    await until(() => pidOf(opened, '') !== undefined);
    // The daemon may need a moment to see that one has ended.
    for (let tries = 0; tries < 20; tries++) {
      const { get } = await opened.run(`out.get = await ask('GET', '/');`);
      if (String(get).startsWith('200')) break;
      t.not(tries, 19, String(get));
    }
    t.not(pidOf(opened, suffix), pid);
  }
});

t.test(
  '110 in part: large bodies pass, a reader that stops holds up only itself, and little is kept',
  async (t) => {
    const opened = await open(t, { rules: [READ] });
    const stalled = await opened.background(
      `https.get({ host: '93.184.215.14', port: 9447, servername: 'ok.test', ca, path: '/down', headers: { host: 'ok.test:9447' }, agent: false }, (r) => { r.once('data', () => { r.pause(); console.log('paused'); }); });`,
    );
    await until(() => stalled.includes('paused'));
    const out = await opened.run(`
    const at = { port: 9447, host: 'ok.test:9447' }; const started = Date.now();
    out.down = await new Promise((done) => https.get({ host: '93.184.215.14', port: 9447, servername: 'ok.test', ca, path: '/down', headers: { host: 'ok.test:9447' }, agent: false }, (r) => { let size = 0; r.on('data', (d) => { size += d.length; }); r.on('end', () => done(size)); }));
    out.ms = Date.now() - started;
    out.up = await ask('POST', '/up', { ...at, headers: { 'content-length': ${SIZE} }, body: Buffer.alloc(${SIZE}), timeout: 60000 });
    out.chunked = await ask('POST', '/up', { ...at, headers: { 'transfer-encoding': 'chunked' }, body: Buffer.alloc(${SIZE}), timeout: 60000 });`);
    t.match(out, { down: SIZE, up: `200 size ${SIZE}`, chunked: `200 size ${SIZE}` });
    const resident = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pidOf(opened)}/status`, 'utf8'))?.[1];
    t.comment(`${out.ms} ms for ${SIZE} bytes, ${resident} kB resident`);
    t.ok(Number(resident) < 400_000, `${resident} kB resident`);
    await until(() => opened.records.filter(({ bytesDown }) => bytesDown === SIZE).length === 1);
  },
);
