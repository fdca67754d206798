// Hosts that lack something: a sandbox with a network is refused with its name, nothing is left, and everything else
// works.
import '../../../support/network/own-network.ts';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readlinkSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { HELPERS } from '../../../support/helper-programs.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { Lab, sh } from '../../../support/network/lab.ts';
import { until } from '../../../support/until.ts';

const lab = await Lab.open(t);
const state = () => sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route; ls /run');
const before = await state();
const network = { allowlist: ['web.example'] };

/** Starts netd with a system call that fails as on a kernel without that feature. */
async function without(call: string): Promise<string> {
  const library = join(lab.dir, `no-${call}.so`);
  const source = `#include <errno.h>\nint ${call}() { errno = EINVAL; return -1; }\n`;
  const gcc = promisify(execFile)('gcc', ['-shared', '-fPIC', '-w', '-x', 'c', '-o', library, '-']);
  gcc.child.stdin?.end(source);
  await gcc;
  const program = join(lab.dir, `netd-without-${call}`);
  await writeFile(program, `#!/bin/sh\nLD_PRELOAD=${library} exec ${HELPERS.netd}\n`);
  await chmod(program, 0o755);
  return program;
}

const nft = (await sh('ldconfig -p | sed -n "s/.*libnftables.so.1 .* => //p" | head -n 1')).trim();
const HOSTS = {
  'a device for taps': { mount: '-t tmpfs none /dev/net', says: /open \/dev\/net\/tun/ },
  nftables: {
    mount: `--bind /dev/null ${await sh(`realpath ${nft}`)}`,
    says: /load libnftables\.so\.1 \(Debian package nftables\)/,
  },
  'network namespaces': { program: await without('unshare'), says: /make a network namespace/ },
  mounts: { program: await without('mount'), says: /keep a network namespace/ },
};

for (const [name, host] of Object.entries(HOSTS))
  t.test(`a host without ${name}`, async (t) => {
    // The mounts are in the test's own namespace.
    if ('mount' in host) await sh(`mount ${host.mount}`);
    const own = await lab.openNetwork('program' in host ? { program: host.program } : {});
    const { manager } = await startMemoryDaemon(t, { network: own });
    for (const options of [{ network }, { publish: [{ hostPort: 8080, guestPort: 80 }] }])
      await t.rejects(manager.create(options), {
        code: 'unsupported',
        message: new RegExp(`cannot be had on this host: .*${host.says.source}`),
      });
    t.equal((await manager.create({})).network, undefined);
    if ('mount' in host) await sh(`umount ${host.mount.trim().split(' ').at(-1)}`);
    await manager.stop('destroy');
    await own.close();
    t.equal(await state(), before);
  });

/** Excludes a process that has only exited and waits for its parent. */
function isNetd(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/exe`).endsWith('/netd');
  } catch {
    return false;
  }
}

t.test('the program for networks ends with a daemon that is killed, whatever it is doing', async (t) => {
  const daemon = spawn(process.execPath, [
    '-e',
    `const child = require('child_process').spawn('${HELPERS.netd}', { stdio: ['pipe', 'ignore', 'inherit'] });
     child.stdin.write('1 rules - 11\\nlist tables'); console.log(child.pid); setInterval(() => {}, 1000);`,
  ]);
  t.teardown(() => daemon.kill('SIGKILL'));
  const [first] = (await once(daemon.stdout, 'data')) as [Buffer];
  const pid = Number.parseInt(String(first), 10);
  // It sleeps when it waits for the rest of the request: the first part has been handled then.
  await until(() => isNetd(pid) && /^State:\tS/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')));
  t.teardown(() => isNetd(pid) && process.kill(pid, 'SIGKILL'));
  process.kill(pid, 'SIGSTOP');
  daemon.kill('SIGKILL');
  await until(() => !isNetd(pid));
  t.pass('also where it stood still');
});
