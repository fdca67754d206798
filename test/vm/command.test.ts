// The command as it is built, with a real guest: an editor, sizes, Ctrl-C, exit codes, pipes, a large copy.
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
import { open, readFile, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import t from 'tap';
import { checkedUrl } from '../support/checked-proxy.ts';
import { startDaemon } from '../support/daemon.ts';
import { openPty } from '../support/pty.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const SANDBOX = resolve(import.meta.dirname, '../../dist/sandbox');
const MIB = 2 ** 20;
/** The long form copies as much as the disk of a laptop notices. */
const COPY_BYTES = process.env.SOAK === '1' ? 1024 * MIB : 48 * MIB;
/** Neither holds what it copies. */
const MAX_COMMAND_MIB = 400;
const MAX_GROWTH_MIB = 200;
const ESCAPE = '\x1b';
/** What removes a bar. */
const CLEAR = '\r\x1b[K';

t.test('the command in a real guest', async (t) => {
  const daemon = await startDaemon(t);
  const { api } = daemon;
  const url = await checkedUrl(t, daemon.url);
  const env = { ...process.env, SANDBOXD_HOST: url };
  const run = async (...words: string[]) =>
    promisify(execFile)(SANDBOX, words, { env, maxBuffer: 2 ** 26 }).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
    );
  const id = (await run('run', 'base')).stdout.trim();
  t.match(id, /^sbx_/);
  const dir = t.testdir({});

  await t.test('exit codes and streams come through', async (t) => {
    t.same(await run('exec', id, 'sh', '-c', 'echo out; echo err >&2; exit 3'), {
      code: 3,
      stdout: 'out\n',
      stderr: 'err\n',
    });
    t.equal((await run('exec', id, 'sh', '-c', 'kill -9 $$')).code, 137);
    t.equal((await run('exec', '--timeout', '1s', id, 'sleep', '60')).code, 124);
    t.match(await run('exec', id, 'nosuch'), { code: 127, stderr: /not found/ });
    t.same(await run('run', '--rm', '-e', 'A=b', '-w', '/tmp', 'base', 'sh', '-c', 'echo $A $PWD'), {
      code: 0,
      stdout: 'b /tmp\n',
      stderr: '',
    });
    t.same(await api.list().then((all) => all.map((each) => each.id)), [id], '--rm removed its sandbox');
  });

  await t.test('single files are listed, printed, moved, edited and removed', async (t) => {
    const editor = join(dir, 'editor');
    await writeFile(editor, '#!/bin/sh\necho "edited by $2" >> "$2"\n', { mode: 0o755 });
    const withEditor = (extra: string) =>
      promisify(execFile)(SANDBOX, ['edit', `${id}:/srv/one/file`], {
        env: { ...env, VISUAL: `${editor} ${extra}` },
      });
    t.match(await run('mkdir', `${id}:/srv/one/two`), { code: 0 });
    await withEditor('x');
    t.match(await run('cat', `${id}:/srv/one/file`), { code: 0, stdout: /^edited by .*file\n$/ });
    t.match(await run('mv', `${id}:/srv/one/file`, '/srv/one/two'), { code: 0 });
    t.match(await run('ls', '-R', `${id}:/srv/one`), { stdout: 'two\ntwo/file\n' });
    t.match(await run('ls', '-l', `${id}:/srv/one/two`), { stdout: /-0644 +root:root .* file\n/ });
    t.match(await run('rm', `${id}:/srv/one`), { code: 1, stderr: /recursive/ });
    t.match(await run('rm', '-r', `${id}:/srv/one`), { code: 0 });
    t.match(await run('cat', `${id}:/srv/one/two/file`), { code: 1, stderr: /does not exist/ });
    t.match(await run('ls', 'srv'), { code: 2, stderr: /<sandbox>:<path>/ });
    t.match(await run('mv', `${id}:/etc/hosts`, 'relative'), { code: 2 });
  });

  await t.test('an editor works, and its terminal has the size of this one', async (t) => {
    const pty = await openPty(t, [SANDBOX, 'exec', '-it', id, 'vi', '/srv/note'], { SANDBOXD_HOST: url });
    await pty.shows('/srv/note');
    // It throws away what was typed before it is whole: asked for the file's name until it says it.
    const asking = setInterval(() => pty.type(`${ESCAPE}:f\r`), 1000);
    await pty.shows('No lines in buffer');
    clearInterval(asking);
    pty.type(`${ESCAPE}ihello from vi`);
    await pty.shows('hello from vi');
    pty.resize(100, 30);
    pty.type(`${ESCAPE}:!stty size\r`);
    await pty.shows('30 100');
    pty.type('\r:wq\r');
    t.equal(await pty.exited, 0);
    t.equal(await api.sh(id, 'cat /srv/note'), 'hello from vi');
  });

  await t.test('a shell is interactive: Ctrl-C ends its command and not itself, Ctrl-D leaves', async (t) => {
    const pty = await openPty(t, [SANDBOX, 'exec', '-it', '-e', 'PS1=ready> ', id, 'sh'], {
      SANDBOXD_HOST: url,
    });
    await pty.shows('ready> ');
    pty.type('stty size; sleep 600\r');
    await pty.shows('24 80');
    pty.resize(90, 33);
    // One that comes between two commands of the shell ends neither.
    const interrupts = setInterval(() => pty.type('\x03'), 1000);
    await pty.shows(/ready> [\s\S]*ready> /);
    clearInterval(interrupts);
    pty.type('stty size\r');
    await pty.shows('33 90');
    pty.type('exit 5\r');
    t.equal(await pty.exited, 5);
  });

  await t.test('a sandbox for one shell: it prompts, and nothing is left of it', async (t) => {
    const before = (await api.list()).length;
    const pty = await openPty(t, [SANDBOX, 'run', '--rm', '-it', 'base'], { SANDBOXD_HOST: url });
    await pty.shows(/root@sbx-\w+:\S+# $/);
    pty.type('echo $((6 * 7)); echo $0; exit 5\r');
    await pty.shows(/42\s+bash/);
    t.equal(await pty.exited, 5);
    t.equal((await api.list()).length, before);
  });

  await t.test('Ctrl-C twice ends the command in the guest, and removes what --rm made', async (t) => {
    const words = [
      'run',
      '--rm',
      'base',
      'sh',
      '-c',
      'trap "echo caught" INT; echo begun; while :; do sleep 1; done',
    ];
    const pty = await openPty(t, [SANDBOX, ...words], { SANDBOXD_HOST: url });
    await pty.shows('begun');
    pty.type('\x03');
    await pty.shows('caught');
    pty.type('\x03');
    t.equal(await pty.exited, 130);
    t.same(await api.list().then((all) => all.map((each) => each.id)), [id]);
  });

  await t.test('a pipe goes through a command', async (t) => {
    const child = spawn(SANDBOX, ['exec', '-i', id, 'sort'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
    let sorted = '';
    child.stdout.on('data', (bytes: Buffer) => {
      sorted += bytes.toString();
    });
    child.stdin.end('b\nc\na\n');
    await new Promise((done) => child.once('close', done));
    t.equal(sorted, 'a\nb\nc\n');
  });

  await t.test('a large file goes in and out with a bar, and is the same', async (t) => {
    const path = join(dir, 'big');
    const file = await open(path, 'w');
    const block = Buffer.alloc(MIB);
    for (let at = 0; at < COPY_BYTES; at += MIB) {
      block.writeUInt32BE(at);
      await file.write(block);
    }
    await file.close();
    for (const words of [
      [path, `${id}:/srv/`],
      [`${id}:/srv/big`, join(dir, 'back')],
    ]) {
      const startedAt = performance.now();
      const before = peakMib(daemon.pid);
      const pty = await openPty(t, [SANDBOX, 'cp', ...words], { SANDBOXD_HOST: url });
      const command = new PeakMemory(pty.programPid);
      await pty.shows(/\[#+ *\] \d+ %/);
      t.equal(await pty.exited, 0);
      t.match(pty.shown.split(CLEAR).at(-1), /^[^\r]*iB\r\n$/, 'the bar is gone');
      const [here, there] = [command.end(), peakMib(daemon.pid)];
      const s = (performance.now() - startedAt) / 1000;
      t.comment(
        `${COPY_BYTES / MIB} MiB in ${s.toFixed(1)} s; peak: command ${here} MiB, daemon ${before} → ${there} MiB`,
      );
      t.ok(here < MAX_COMMAND_MIB, `the command streams: ${here} MiB`);
      t.ok(there - before < MAX_GROWTH_MIB, `the daemon streams: ${before} → ${there} MiB`);
    }
    t.equal(await digest(join(dir, 'back')), await digest(path));
    t.equal((await stat(join(dir, 'back'))).size, COPY_BYTES);
  });

  await t.test('a disk of the guest that is full', async (t) => {
    await run('exec', id, 'sh', '-c', 'mkdir /small && mount -t tmpfs -o size=1m none /small');
    const path = join(dir, 'too-large');
    await writeFile(path, Buffer.alloc(4 * MIB));
    const full = await run('cp', path, `${id}:/small/`);
    t.match(full, { code: 1, stdout: '', stderr: /^sandbox: [^\n]*the guest's disk is full[^\n]*\n$/ });
    t.same(await run('exec', id, 'umount', '/small'), { code: 0, stdout: '', stderr: '' });
  });

  await t.test('directories, the service, logs, snapshots and forks', async (t) => {
    await writeFile(join(dir, 'one'), '1');
    await run('exec', id, 'sh', '-c', 'mkdir -p /srv/tree/deep && echo 2 > /srv/tree/deep/two');
    t.equal((await run('cp', `${id}:/srv/tree`, dir)).code, 0);
    t.equal(await readFile(join(dir, 'tree/deep/two'), 'utf8'), '2\n');
    t.equal((await run('cp', join(dir, 'tree'), `${id}:/srv/again`)).code, 0);
    t.equal(await api.sh(id, 'cat /srv/again/deep/two'), '2');
    t.match(await run('service', 'set', id, 'sh', '-c', 'echo ready; sleep 1000'), {
      code: 0,
      stdout: /^(starting|running)/,
    });
    for (let said = ''; said !== 'ready\n'; ) said = (await run('service', 'logs', id)).stdout;
    t.match(await run('service', 'stop', id), { code: 0, stdout: /^(stopped|stopping)/ });
    t.match((await run('logs', '--source', 'exec', id)).stdout, 'out\n');
    const forks = (await run('fork', '-n', '2', id)).stdout.trim().split('\n');
    t.equal(forks.length, 2);
    t.equal((await run('exec', forks[1] ?? '', 'cat', '/srv/again/deep/two')).stdout, '2\n');
    t.match(await run('rm', id, ...forks), { code: 0 });
    t.same((await run('ps', '-q')).stdout, '');
    t.same((await run('snapshots', '-q')).stdout, '', 'the snapshot that the fork took is gone');
  });
});

async function digest(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

/** The most memory that a process ever had at once. Throws when it is gone. */
function peakMib(pid: number): number {
  const [, kib = ''] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kib) / 1024);
}

/** Of a process that ends by itself: looks until then. */
class PeakMemory {
  readonly #pid: number;
  readonly #timer = setInterval(() => this.#look(), 50);
  #mib = 0;

  constructor(pid: number) {
    this.#pid = pid;
  }

  end(): number {
    clearInterval(this.#timer);
    return this.#mib;
  }

  #look(): void {
    try {
      this.#mib = Math.max(this.#mib, peakMib(this.#pid));
    } catch {
      // It has ended.
    }
  }
}
