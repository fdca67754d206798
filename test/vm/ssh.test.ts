// Debian's sshd in a guest without a network, behind `sandbox connect` and `sandbox ssh`.
import { execFile, execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { filesOfPackage } from '../support/debian-packages.ts';
import { push } from '../support/files.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const run = promisify(execFile);
const DIST = resolve(import.meta.dirname, '../../dist');
const MIB = 2 ** 20;

const dir = mkdtempSync(join(tmpdir(), 'ssh-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const tree = join(dir, 'tree');
mkdirSync(tree);
// The others that it needs are in the guest.
for (const name of ['openssh-server', 'libwrap0', 'libnsl2'])
  execFileSync('tar', ['x', '-C', tree], {
    input: filesOfPackage(name),
    stdio: ['pipe', 'ignore', 'ignore'],
  });

const files = (base: string): Readable =>
  Readable.from([execFileSync('tar', ['c', '-C', base, '.'], { maxBuffer: 1 << 28 })]);

const daemon = await startDaemon(t);
const { api } = daemon;
const { id } = await api.create({ memory_mib: 256 });
execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(dir, 'key')]);
execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(dir, 'host')]);
const secret = join(dir, 'secret');
mkdirSync(secret);
execFileSync('cp', [join(dir, 'host'), join(secret, 'host')]);
execFileSync('cp', [join(dir, 'key.pub'), join(secret, 'authorized')]);
await push(api, id, '/usr/lib', files(join(tree, 'usr/lib')));
await push(api, id, '/usr/sbin', files(join(tree, 'usr/sbin')));
await push(api, id, '/srv/ssh', files(secret));
await api.sh(
  id,
  `echo 'sshd:x:110:65534::/run/sshd:/usr/sbin/nologin' >> /etc/passwd; mkdir -p /run/sshd
   chmod 600 /srv/ssh/host; chown -R root:root /srv/ssh
   setsid /usr/sbin/sshd -D -e -f /dev/null -o UsePAM=no -o HostKey=/srv/ssh/host -o StrictModes=no \\
     -o AuthorizedKeysFile=/srv/ssh/authorized > /root/sshd.log 2>&1 &`,
);
await api.sh(id, 'until grep -q listening /root/sshd.log; do sleep 0.2; done');

// A user has these in ~/.ssh.
const config = join(dir, 'config');
writeFileSync(
  config,
  `IdentityFile ${join(dir, 'key')}\nUserKnownHostsFile ${join(dir, 'known')}\nLogLevel ERROR\n`,
);
writeFileSync(join(dir, 'ssh'), `#!/bin/sh\nexec /usr/bin/ssh -F ${config} "$@"\n`, { mode: 0o755 });
const env = { ...process.env, SANDBOXD_HOST: daemon.url, PATH: `${dir}:${DIST}:${process.env.PATH}` };
/** An Error has what the programs wrote; its code is a text. */
const shell = async (command: string): Promise<string> =>
  run('bash', ['-o', 'pipefail', '-c', command], { env, maxBuffer: 1 << 26 }).then(
    ({ stdout }) => stdout,
    ({ message, code }) => {
      throw Object.assign(new Error(message), { code: `exit ${code}` });
    },
  );

t.test('sandbox ssh runs a command, ends with its exit code, and knows the host again', async (t) => {
  t.equal(await shell(`sandbox ssh ${id} 'cat /run/sandbox/id; ls /sys/class/net'`), `${id}\nlo\n`);
  await t.rejects(shell(`sandbox ssh ${id} 'exit 7'`), { code: 'exit 7' });
  t.match(execFileSync('cat', [join(dir, 'known')], { encoding: 'utf8' }), new RegExp(`^${id} ssh-ed25519 `));
  t.equal(await shell(`echo typed | sandbox ssh ${id} cat`), 'typed\n');
});

t.test('sandbox connect is a ProxyCommand: bytes both ways, a forwarded port', async (t) => {
  const ssh = `ssh -o ProxyCommand='sandbox connect ${id} 22' -o StrictHostKeyChecking=no root@box`;
  const body = randomBytes(4 * MIB);
  writeFileSync(join(dir, 'body'), body);
  const digest = createHash('sha256').update(body).digest('hex');
  t.match(await shell(`${ssh} sha256sum < ${join(dir, 'body')}`), digest);
  t.match(
    await shell(`${ssh} 'cat > /root/body' < ${join(dir, 'body')}; ${ssh} cat /root/body | sha256sum`),
    digest,
  );
  t.match(await shell(`${ssh} -W localhost:22 < /dev/null`), /^SSH-2.0-OpenSSH/, 'a connection within');
});
