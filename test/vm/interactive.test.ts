// Interactive exec on a real guest, over a raw connection and over a WebSocket: bytes, terminals, and bad ends.
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { EXEC_FRAME, ExecFrameDecoder, encodeExecFrame } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { type ExecFields, RawExec, REPLY, WebSocketExec } from '../support/interactive.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(300_000));
const daemon = await startDaemon(t);
const { api, url } = daemon;
const { id } = await api.create();

const transports = {
  raw: (fields: ExecFields) => new RawExec(url, id, fields),
  websocket: (fields: ExecFields) => new WebSocketExec(url, id, fields),
} as const;
type Opener = (typeof transports)[keyof typeof transports];

/** The same test over both transports. */
function both(title: string, body: (t: Test, open: Opener) => Promise<void>): void {
  for (const [name, open] of Object.entries(transports)) t.test(`${title} (${name})`, (t) => body(t, open));
}

const sha = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const sleepers = (): Promise<string> => api.sh(id, 'pgrep -c -x sleep || true');

/** A program started in the background may not have become `sleep` yet, and a killed one not have gone. */
async function untilSleepers(count: string): Promise<string> {
  let last = await sleepers();
  for (let attempt = 0; attempt < scaled(100) && last !== count; attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    last = await sleepers();
  }
  return last;
}

t.test('the reply is exact, and bytes in the packet of the request arrive', async (t) => {
  const frames = [
    encodeExecFrame(EXEC_FRAME.stdin, Buffer.from('one ')),
    encodeExecFrame(EXEC_FRAME.stdin, Buffer.from('two\n')),
    encodeExecFrame(EXEC_FRAME.stdinClose, Buffer.alloc(0)),
  ];
  const exec = new RawExec(url, id, { cmd: ['cat'] }, Buffer.concat(frames));
  const result = await exec.ended();
  t.equal(exec.head, REPLY);
  t.equal(exec.text, 'one two\n');
  t.equal(result.exit_code, 0);
});

t.test('curl runs a command', async (t) => {
  const { stdout } = await promisify(execFile)(
    'curl',
    ['-sSN', `${url}/sandboxes/${id}/exec`, '-d', '{"cmd": ["sh", "-c", "echo out; echo err >&2; exit 9"]}'],
    { encoding: 'buffer' },
  );
  const frames = new ExecFrameDecoder().push(stdout);
  const text = (type: number): string =>
    Buffer.concat(frames.filter((frame) => frame.type === type).map(({ payload }) => payload)).toString();
  t.equal(text(EXEC_FRAME.stdout), 'out\n');
  t.equal(text(EXEC_FRAME.stderr), 'err\n');
  t.match(JSON.parse(text(EXEC_FRAME.exit)), { exit_code: 9 });
  t.equal(frames.at(-1)?.type, EXEC_FRAME.exit);
});

both('bytes go there and back unchanged', async (t, open) => {
  const sent = randomBytes(3 * 2 ** 20 + 17);
  sent.fill(0, 1_000_000, 1_400_000);
  const exec = open({ cmd: ['cat'] });
  const bytes: Buffer[] = [];
  for (let at = 0; at < sent.length; ) {
    const payload = sent.subarray(at, at + 1 + ((at * 7) % 65_536));
    bytes.push(encodeExecFrame(EXEC_FRAME.stdin, payload));
    at += payload.length;
  }
  const stream = Buffer.concat(bytes);
  // Cut without regard to frames.
  for (let at = 0; at < stream.length; at += 50_021) await exec.send(stream.subarray(at, at + 50_021));
  await exec.closeStdin();
  t.equal((await exec.ended()).exit_code, 0);
  t.equal(exec.stdout.length, sent.length);
  t.equal(sha(exec.stdout), sha(sent));
});

both('frames of single bytes arrive', async (t, open) => {
  const exec = open({ cmd: ['cat'] });
  const one = encodeExecFrame(EXEC_FRAME.stdin, Buffer.from('x'));
  await exec.send(Buffer.concat(Array.from({ length: 20_000 }, () => one)));
  await exec.closeStdin();
  await exec.ended();
  t.equal(exec.text, 'x'.repeat(20_000));
});

t.test('output of every shape arrives whole', async (t) => {
  // Blocks that do not fit pages, small ones between large ones, both streams at once, zeros at ends.
  const script = `
    $a = "a" x 262144; $b = "b" x 70001; $z = "\\0" x 131072;
    for $i (1..12) { syswrite STDOUT, $a; syswrite STDOUT, "s$i"; syswrite STDERR, $b; syswrite STDOUT, $z }`;
  const { stdout, stderr, result } = await api.exec(id, ['perl', '-e', script]);
  const expected = Array.from(
    { length: 12 },
    (_, n) => `${'a'.repeat(262_144)}s${n + 1}${'\0'.repeat(131_072)}`,
  ).join('');
  t.equal(result.exit_code, 0);
  t.ok(stdout === expected, `${stdout.length} of ${expected.length} characters`);
  t.ok(stderr === 'b'.repeat(70_001 * 12), `${stderr.length} characters`);
});

both('signals and time limits end the whole tree', async (t, open) => {
  const script =
    'trap "echo caught; exit 5" INT; (setsid sleep 500 &); until pgrep -x sleep >/dev/null; do :; done; echo ready; while :; do sleep 0.1; done';
  const signalled = open({ cmd: ['sh', '-c', script] });
  await signalled.until(() => signalled.text.includes('ready'), 'ready');
  await signalled.signal('SIGNONSENSE');
  await signalled.signal('SIGINT');
  t.match(await signalled.ended(), { exit_code: 5 });
  t.match(signalled.text, /caught/);
  t.equal(await untilSleepers('1'), '1', 'what was left on purpose lives');
  await api.sh(id, 'pkill -x sleep');
  const limited = open({ cmd: ['sh', '-c', '(setsid sleep 500 &); exec sleep 501'], timeout_s: 1 });
  t.match(await limited.ended(), { exit_code: -1, signal: 'SIGKILL', timed_out: true });
  t.equal(await untilSleepers('0'), '0');
});

both('a client that vanishes takes its command along', async (t, open) => {
  const exec = open({ cmd: ['sh', '-c', '(setsid sleep 600 &); echo ready; exec sleep 601'] });
  await exec.until(() => exec.text === 'ready\n', 'ready');
  exec.destroy();
  t.equal(await untilSleepers('0'), '0');
});

t.test('a half-closed raw connection is a client that left', async (t) => {
  const exec = new RawExec(url, id, { cmd: ['sh', '-c', 'echo ready; exec sleep 700'] });
  await exec.until(() => exec.text === 'ready\n', 'ready');
  exec.socket.end();
  t.match(await exec.ended(), { exit_code: -1, signal: 'SIGKILL' });
});

both('a terminal has a size, changes it, and takes control characters', async (t, open) => {
  const exec = open({ cmd: ['bash', '--norc', '-i'], tty: { cols: 91, rows: 23 }, env: { PS1: '$ ' } });
  await exec.stdin('tty; stty size; echo "err" >&2; echo size-$?\n');
  await exec.until(() => exec.text.includes('size-0'), 'the size');
  t.match(exec.text, /\/dev\/pts\/\d+\r\n23 91\r\n/);
  t.equal(exec.stderr.length, 0, 'all output is stdout');
  await exec.resize(120, 50);
  await exec.stdin('stty size; echo again-$?\n');
  await exec.until(() => exec.text.includes('again-0'), 'the new size');
  t.match(exec.text, /50 120\r\n/);
  // Job control: stop, list, continue in the background, interrupt in the foreground.
  await exec.stdin('sleep 801\n');
  for (let tries = 0; tries < scaled(50) && (await sleepers()) === '0'; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await exec.stdin('\x1a');
  await exec.until(() => /Stopped\s+sleep 801/.test(exec.text), 'the job being stopped');
  await exec.stdin('bg; jobs; fg\n');
  await exec.until(() => /Running\s+sleep 801/.test(exec.text), 'the job running');
  await exec.until(() => /\nsleep 801\r\n$/.test(exec.text), 'the job in the foreground');
  await exec.stdin('\x03');
  // What is typed before the interrupt is handled is discarded with it, as on any terminal.
  await exec.until(() => /\^C[\s\S]*\$ $/.test(exec.text), 'the next prompt');
  await exec.stdin('echo code-$?\n');
  await exec.until(() => exec.text.includes('code-130'), 'the interrupted job');
  await exec.stdin('exit 6\n');
  t.match(await exec.ended(), { exit_code: 6 });
});

both('the end of input is the terminal’s own', async (t, open) => {
  const exec = open({ cmd: ['cat'], tty: { cols: 80, rows: 24 } });
  await exec.stdin('line\n');
  await exec.until(() => exec.text === 'line\r\nline\r\n', 'the echo and the output');
  await exec.closeStdin();
  const result = await exec.ended();
  t.match(result, { exit_code: 0 }, JSON.stringify(result));
});

t.test('vi edits a file', async (t) => {
  const exec = new WebSocketExec(url, id, { cmd: ['vi', '/tmp/edited'], tty: { cols: 80, rows: 24 } });
  await exec.until(() => exec.text.includes('~'), 'the screen');
  await exec.stdin('ihello from vi');
  await exec.until(() => exec.text.includes('hello from vi'), 'the text');
  await exec.stdin('\x1b');
  await exec.stdin(':wq\r');
  t.match(await exec.ended(), { exit_code: 0 });
  t.equal(await api.sh(id, 'cat /tmp/edited'), 'hello from vi');
});

both('what a terminal’s program wrote before its end arrives', async (t, open) => {
  const exec = open({ cmd: ['sh', '-c', 'seq 1 20000; exit 3'], tty: { cols: 80, rows: 24 } });
  t.match(await exec.ended(), { exit_code: 3 });
  t.equal(exec.text.split('\r\n').length, 20_001);
  t.match(exec.text, /\r\n20000\r\n$/);
});

t.test('a guest that dies in the middle', async (t) => {
  const victim = await api.create();
  const pid = vmmOf(victim.id);
  const fields = { cmd: ['sh', '-c', 'echo ready; exec sleep 900'] };
  const running = [new RawExec(url, victim.id, fields), new WebSocketExec(url, victim.id, fields)] as const;
  const oneWay = api.exec(victim.id, fields.cmd);
  for (const exec of running) await exec.until(() => exec.text === 'ready\n', 'ready');
  // A guest that stands still has not answered these when it dies.
  process.kill(pid, 'SIGSTOP');
  const early = api.exec(victim.id, ['true']).catch((error: unknown) => error);
  const earlySocket = new WebSocketExec(url, victim.id, { cmd: ['true'] });
  const earlyRaw = new RawExec(url, victim.id, { cmd: ['true'] });
  // Until the daemon has sent them on.
  await new Promise((resolve) => setTimeout(resolve, 3000));
  process.kill(pid, 'SIGKILL');
  for (const exec of running) t.match(await exec.ended(), { exit_code: -1, error: /lost/ });
  t.equal(running[1].closeCode, 1000, 'the exit frame was the end');
  t.match((await oneWay).result, { exit_code: -1, error: /lost/ });
  t.match(await early, { status: 502, message: /lost/ });
  await earlySocket.until(() => earlySocket.isEnded, 'its end');
  t.equal(earlySocket.closeCode, 1011);
  await earlyRaw.until(() => earlyRaw.isEnded, 'its end');
  t.match(earlyRaw.head, /^HTTP\/1.1 502 /);
  // From now on it is known to be dead.
  await t.rejects(api.exec(victim.id, ['true']), { status: 500, message: /dead/ });
  const late = new WebSocketExec(url, victim.id, { cmd: ['true'] });
  await late.until(() => late.isEnded, 'its end');
  t.equal(late.closeCode, 1011);
  await api.delete(victim.id);
  t.equal(await api.sh(id, 'echo others live'), 'others live');
});

function vmmOf(sandboxId: string): number {
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === daemon.pid) continue;
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(sandboxId)) return Number(pid);
    } catch {}
  }
  throw new Error(`no process of ${sandboxId}`);
}
