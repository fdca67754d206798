// Odd surroundings: files that change while they are copied, disks that are full, readers that leave, no terminal, no locale.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { extract } from 'tar-stream';
import { AppError } from '../../../host-agent/src/lib/errors.ts';
import { COMMAND, type Ended, runCommand } from '../../support/command.ts';
import { outflow } from '../fake-sandboxes.ts';
import { serve } from '../support.ts';

t.setTimeout(240_000);

const MIB = 2 ** 20;
const ONE_LINE = /^sandbox: [^\n]+\n$/;

/** The command within a line of shell, as its "$@". */
async function runIn(line: string, words: readonly string[], env: Record<string, string>): Promise<Ended> {
  const shell = spawn('sh', ['-c', line, 'sh', ...COMMAND, ...words], { env: { ...process.env, ...env } });
  const [stdout, stderr, [code]] = await Promise.all([
    text(shell.stdout),
    text(shell.stderr),
    once(shell, 'close') as Promise<[number | null]>,
  ]);
  return { code, stdout, stderr };
}

/** A daemon whose guest takes files, and calls `onFirst` when the first bytes of an archive are there. */
async function servePush(t: Test) {
  const served = await serve(t);
  const files: Record<string, number> = {};
  const hooks = { onFirst: () => {} };
  served.sandboxes.onPull = async () => {
    throw new AppError('not_found', 'there is no such directory');
  };
  served.sandboxes.onPush = async (_, read) => {
    const archive = extract({});
    const done = (async () => {
      for await (const entry of archive) {
        let bytes = 0;
        for await (const part of entry) bytes += (part as Buffer).length;
        files[entry.header.name] = bytes;
      }
    })();
    done.catch(() => {});
    let isFirst = true;
    for (let part = await read(); part !== undefined; part = await read()) {
      if (isFirst) hooks.onFirst();
      isFirst = false;
      archive.write(Buffer.from(part));
    }
    archive.end(undefined);
    await done;
    return { files: 1, bytes: 1 };
  };
  const env = { SANDBOXD_HOST: served.url };
  return { ...served, id: served.sandboxes.add().id, env, files, hooks };
}

t.test(
  'of a file that grows during the copy the first bytes are sent, one that shrinks is reported',
  async (t) => {
    const { id, env, files, hooks } = await servePush(t);
    const dir = t.testdir({ d: {} });
    for (const [from, path] of [
      ['f', 'f'],
      ['d', 'd/f'],
    ] as const) {
      const file = join(dir, path);
      writeFileSync(file, Buffer.alloc(64 * MIB));
      hooks.onFirst = () => appendFileSync(file, Buffer.alloc(MIB));
      t.match(await runCommand(['cp', join(dir, from), `${id}:/srv/`], env), { code: 0, stderr: '' }, from);
      t.equal(files.f, 64 * MIB, from);
      writeFileSync(file, Buffer.alloc(64 * MIB));
      hooks.onFirst = () => truncateSync(file, 1000);
      const { code, stderr } = await runCommand(['cp', join(dir, from), `${id}:/srv/`], env);
      t.equal(code, 1, from);
      t.match(stderr, /^sandbox: [^\n]*(?:changed while it was copied|changed meanwhile)[^\n]*\n$/, from);
      t.notMatch(stderr, 'unexpected');
    }
  },
);

t.test('files without a size are read first: files of /proc, pipes', async (t) => {
  const { id, env, files } = await servePush(t);
  t.match(await runCommand(['cp', '/proc/self/status', `${id}:/srv/status`], env), { code: 0 });
  t.ok((files.status ?? 0) > 100);
  const pipe = await runIn(`printf 12345 | "$@"`, ['cp', '/dev/stdin', `${id}:/srv/five`], env);
  t.match(pipe, { code: 0 });
  t.equal(files.five, 5);
  writeFileSync(join(t.testdir({}), 'empty'), '');
  t.match(await runCommand(['cp', '/dev/null', `${id}:/srv/empty`], env), { code: 0 });
  t.equal(files.empty, 0);
});

t.test('a disk that is full, there and here', async (t) => {
  const { id, env, sandboxes } = await servePush(t);
  const dir = t.testdir({ big: Buffer.alloc(8 * MIB), to: {} });
  sandboxes.onPush = async (_, read) => {
    await read();
    throw new AppError('exhausted', "/srv/big cannot be written: the guest's disk is full");
  };
  const pushed = await runCommand(['cp', join(dir, 'big'), `${id}:/srv/`], env);
  t.same(pushed, {
    code: 1,
    stdout: '',
    stderr: "sandbox: /srv/big cannot be written: the guest's disk is full\n",
  });
  const pieces = Array.from({ length: 8 }, () => Buffer.alloc(MIB));
  sandboxes.onPull = async () => ({
    sizeBytes: 8 * MIB,
    contentBytes: 8 * MIB,
    body: outflow(...pieces),
  });
  const to = join(dir, 'to');
  const line = `exec unshare -rm sh -c 'mount -t tmpfs -o size=1m none "$TO" && "$@"; code=$?; ls -A "$TO"; exit $code' sh "$@"`;
  const pulled = await runIn(line, ['cp', `${id}:/big`, to], { ...env, TO: to });
  t.same(pulled, {
    code: 1,
    stdout: '',
    stderr: 'sandbox: ENOSPC: no space left on device, write\n',
  });
});

t.test('a home that cannot be written', async (t) => {
  const { url, env } = await servePush(t);
  const home = t.testdir({});
  const line = `exec unshare -rm sh -c 'mount -t tmpfs -o ro none "$HOME" && exec "$@"' sh "$@"`;
  const own = { ...env, HOME: home, XDG_CONFIG_HOME: '' };
  t.match(await runIn(line, ['ps'], own), { code: 0, stderr: '' });
  const set = await runIn(line, ['context', 'set', 'x', '--host', url], own);
  t.match(set, { code: 1, stdout: '', stderr: ONE_LINE });
  t.match(set.stderr, 'EROFS: read-only file system');
});

t.test('names that are not ASCII, without a locale and without TERM', async (t) => {
  const { id, env, files, sandboxes } = await servePush(t);
  const dir = t.testdir({});
  mkdirSync(join(dir, 'größe'));
  writeFileSync(join(dir, '日本 ä.txt'), 'text');
  const bare = { ...env, LANG: 'C', LC_ALL: 'C', TERM: '' };
  t.match(await runCommand(['cp', join(dir, '日本 ä.txt'), `${id}:/srv/`], bare), { code: 0, stderr: '' });
  t.equal(files['日本 ä.txt'], 4);
  sandboxes.onPull = async () => ({ sizeBytes: 2, contentBytes: 2, body: outflow('ok') });
  t.match(await runCommand(['cp', `${id}:/ñ`, join(dir, 'größe')], bare), { code: 0, stderr: '' });
  t.equal(readFileSync(join(dir, 'größe/ñ'), 'utf8'), 'ok');
  sandboxes.script = (exec) => {
    exec.output('stdout', exec.request.cmd[1] ?? '');
    exec.exit();
  };
  t.equal((await runCommand(['exec', id, 'echo', 'naïve 日本'], bare)).stdout, 'naïve 日本');
  const shell = await runIn('unset TERM LANG LC_ALL; exec "$@"', ['ps'], env);
  t.match(shell, { code: 0, stderr: '' });
});

t.test('standard streams that are closed', async (t) => {
  const { id, env, sandboxes } = await servePush(t);
  sandboxes.onPull = async () => ({ sizeBytes: 2, contentBytes: 2, body: outflow('ok') });
  const file = join(t.testdir({ file: 'x' }), 'file');
  for (const closing of ['<&-', '>&-', '2>&-', '<&- >&- 2>&-'])
    for (const words of [
      ['ps'],
      ['images'],
      ['cp', file, `${id}:/x`],
      ['cp', `${id}:/x`, file],
      ['--help'],
    ]) {
      const { code } = await runIn(`exec "$@" ${closing}`, words, env);
      t.equal(code, 0, `${words[0]} ${closing}`);
    }
});

t.test('a reader that leaves ends each verb that says much', async (t) => {
  const at = '2026-01-01T00:00:00Z';
  const many = <T>(make: (number: number) => T) =>
    Array.from({ length: 20_000 }, (_, number) => make(number));
  const sandboxes = many((number) => ({ id: `sbx_${number}`, vcpus: 1, memory_mib: 1, created_at: at }));
  const snapshots = many((number) => ({
    id: `snap_${number}`,
    source_id: 'sbx_1',
    memory_mib: 1,
    created_at: at,
  }));
  const images = many((number) => ({ source_ref: `image-${number}`, digest: 'x'.repeat(64), size_bytes: 1 }));
  const record = { source: 'exec', stream: 'stdout', text: `${'y'.repeat(100)}\n`, time_ms: 1 };
  const egress = { at: '2026-03-14T15:09:26.535Z', verdict: 'denied', reason: 'y'.repeat(100) };
  const line = JSON.stringify({
    seq: 1,
    stream: 'stdout',
    unix_ms: 1,
    data: Buffer.alloc(3000).toString('base64'),
  });
  const answers: [RegExp, (offset: number) => string][] = [
    [
      /\/files\/watch/,
      () => `${JSON.stringify({ type: 'create', path: 'y'.repeat(100), directory: false })}\n`.repeat(20_000),
    ],
    [
      /\/commands$/,
      () =>
        JSON.stringify({
          commands: many((number) => ({ id: `cmd_${number}`, cmd: ['x'], state: 'running', started_at: at })),
        }),
    ],
    [/\/service\/logs/, () => `${line}\n`.repeat(2000)],
    [/\/egress/, (offset) => JSON.stringify({ records: Array(2000).fill(egress), next_offset: offset + 1 })],
    [/\/logs/, (offset) => JSON.stringify({ records: Array(2000).fill(record), next_offset: offset + 1 })],
    [
      /\/events/,
      () =>
        `id: 1\ndata: ${JSON.stringify({ id: '1', at, kind: 'created', sandbox: 'sbx_1' })}\n\n`.repeat(
          20_000,
        ),
    ],
    [/\/sandboxes\/./, () => JSON.stringify({ id: 'x'.repeat(200_000) })],
    [/\/snapshots\/.*\/export/, () => 'z'.repeat(8 * MIB)],
    [/\/sandboxes/, () => JSON.stringify({ sandboxes, deleted: sandboxes.map(({ id }) => id), failed: [] })],
    [/\/snapshots/, () => JSON.stringify({ snapshots })],
    [/\/profiles/, () => JSON.stringify({ profiles: [] })],
    [/\/images/, () => JSON.stringify({ images })],
  ];
  let offset = 0;
  const server = createServer((incoming, outgoing) => {
    const [, answer] = answers.find(([pattern]) => pattern.test(incoming.url ?? '')) ?? [];
    const type =
      incoming.headers.accept === 'application/x-ndjson' ? 'application/x-ndjson' : 'application/json';
    outgoing.writeHead(answer ? 200 : 404, { 'content-type': type }).end(answer?.(offset++));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.closeAllConnections());
  t.teardown(() => server.close());
  const env = { SANDBOXD_HOST: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  const id = 'sbx_0123456789abc';
  for (const words of [
    ['ps'],
    ['ps', '-q'],
    ['ps', '--json'],
    ['ps', '--profile', 'base', '--limit', '20000'],
    ['rm', '--label', 'team'],
    ['rm', '--json', '--label', 'team'],
    ['snapshots'],
    ['images'],
    ['images', '-q'],
    ['inspect', id],
    ['watch', `${id}:/srv`],
    ['commands', id],
    ['logs', '--all', id],
    ['logs', '-f', id],
    ['logs', '-f', '--json', id],
    ['egress', '--all', id],
    ['egress', '-f', id],
    ['egress', '-f', '--json', id],
    ['service', 'logs', id],
    ['service', 'logs', '-f', id],
    ['events'],
    ['events', '--json'],
    ['export', 'snap_0123456789abc'],
  ]) {
    const line = `{ "$@"; echo $? >&3; } 3>&2 2>"$ERRORS" | head -c 1 >/dev/null`;
    const errors = join(t.testdir({}), 'errors');
    const { stderr } = await runIn(line, words, { ...env, ERRORS: errors });
    t.same([stderr, readFileSync(errors, 'utf8')], ['141\n', ''], words.join(' '));
  }
});

t.test('an unexpected error is one line, and with SANDBOXD_DEBUG also its stack', async (t) => {
  let body = '{}';
  const server = createServer((_, outgoing) => void outgoing.end(body));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const env = { SANDBOXD_HOST: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  const short = await runCommand(['ps'], env);
  t.match(short, { code: 1, stdout: '', stderr: ONE_LINE });
  t.match(short.stderr, /^sandbox: unexpected TypeError: .*; SANDBOXD_DEBUG=1 shows where it came from\n$/);
  const long = await runCommand(['ps'], { ...env, SANDBOXD_DEBUG: '1' });
  t.match(
    long.stderr,
    /^sandbox: unexpected TypeError: [^\n]*\nTypeError: [^\n]*\n +at [^\n]*Requests\.list/,
  );
  body = JSON.stringify({ profiles: ['日本', 'e\u0301x', 'base'], images: [] });
  const table = [
    'NAME   KIND      DIGEST   SIZE',
    '日本   profile            0 B',
    'e\u0301x     profile            0 B',
    'base   profile            0 B',
  ];
  t.equal((await runCommand(['images'], env)).stdout, `${table.join('\n')}\n`, 'columns, not letters');
  body = '<html>\x1b[2J';
  const other = await runCommand(['ps'], env);
  t.equal(
    other.stderr,
    'sandbox: the answer to GET /sandboxes is not JSON; is it a sandboxd that listens there?\n',
  );
});

t.test('an unknown verb gets a suggestion, also for names of other tools', async (t) => {
  for (const [word, meant] of [
    ['pss', 'ps'],
    ['stop', 'rm'],
    ['list', 'ps'],
    ['shell', 'exec'],
  ] as const)
    t.match(await runCommand([word], {}), {
      code: 2,
      stderr: `there is no verb "${word}"; did you mean ${meant}? `,
    });
  t.match(await runCommand(['constructor'], {}), {
    code: 2,
    stderr: 'there is no verb "constructor"; `sandbox --help`',
  });
});
