// A purge of the package removes everything of its daemon, and nothing of another daemon on the same host.
import '../../support/network/own-network.ts';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { readBootId, readStartTicks } from '../../../host-agent/src/lib/proc.ts';
import { writeProcessRecord } from '../../../host-agent/src/lib/process-record.ts';
import { listLinks } from '../../../host-agent/src/network/host-side.ts';
import { sh } from '../../support/network/lab.ts';
import { until } from '../../support/until.ts';

const POSTRM = resolve(import.meta.dirname, '../../../debian/sandboxd.postrm');
const LEASES = '/run/sandboxd-uids';
const [OURS, PORTS, THEIRS, GONE] = [1_879_100_001, 1_879_100_002, 1_879_100_003, 1_879_100_004];

// This file's own host: the script must not see the real one.
for (const place of ['/run', '/var/lib', '/etc', '/sys/fs/cgroup']) await sh(`mount -t tmpfs none ${place}`);

async function startAs(uid: number) {
  const child = spawn('sleep', ['1000'], { uid, gid: uid });
  t.teardown(() => child.kill('SIGKILL'));
  let hasEnded = false;
  child.once('exit', () => {
    hasEnded = true;
  });
  const { pid = 0 } = child;
  await until(() => readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith('sleep'), 'its program');
  const process = { pid, startTicks: readStartTicks(pid) ?? -1 };
  writeFileSync(join(LEASES, String(uid)), `${pid} ${process.startTicks}\n`);
  return { process, hasEnded: () => hasEnded };
}

t.test('a purge ends its own sandboxes alone', async (t) => {
  for (const dir of ['/run/sandboxd/net', '/run/sandboxd/ports', LEASES, '/var/lib/sandboxd/profiles'])
    mkdirSync(dir, { recursive: true });
  const [ours, ports, theirs] = [await startAs(OURS), await startAs(PORTS), await startAs(THEIRS)];
  writeProcessRecord('/run/sandboxd/sbx_a.vmm', { what: 'vmm', uid: OURS, process: ours.process });
  writeProcessRecord('/run/sandboxd/ports/sbxaaaaa000001', {
    what: 'ports',
    uid: PORTS,
    process: ports.process,
  });
  // A record whose pid now belongs to another process.
  writeFileSync(
    '/run/sandboxd/sbx_b.vmm',
    `${JSON.stringify({ what: 'vmm', uid: GONE, bootId: readBootId() })}\n${JSON.stringify({ pid: theirs.process.pid, startTicks: 1 })}\n`,
  );
  writeFileSync(join(LEASES, String(GONE)), `${theirs.process.pid} 1\n`);
  writeFileSync(join(LEASES, 'sandboxd.lock'), '');
  writeFileSync('/run/sandboxd/net/sbxaaaaa000001', '');
  for (const link of ['sbxaaaaa000000', 'sbxaaaaa000001', 'sbxbbbbb000000'])
    await sh(`ip tuntap add dev ${link} mode tun`);
  for (const name of ['sbxaaaaa', 'sbxbbbbb'])
    await sh(
      `nft 'table ip sandboxd_${name} { chain forward { counter drop comment "this host was no router before"; }; }'`,
    );
  await sh('echo 1 >/proc/sys/net/ipv4/ip_forward');
  const forwards = () => readFileSync('/proc/sys/net/ipv4/ip_forward', 'latin1').trim();
  const tables = () => sh('nft list tables');

  await sh(`sh ${POSTRM} purge`);
  await until(() => ours.hasEnded() && ports.hasEnded(), 'the end of its own');
  t.notOk(theirs.hasEnded(), 'another daemon’s goes on');
  t.same(readdirSync(LEASES).sort(), [String(THEIRS), 'sandboxd.lock'], 'and keeps its user');
  const links = (await listLinks()).filter((name) => name.startsWith('sbx'));
  t.same(links, ['sbxbbbbb000000'], 'and its network');
  t.match(await tables(), 'sandboxd_sbxbbbbb');
  t.notMatch(await tables(), 'sandboxd_sbxaaaaa');
  t.equal(forwards(), '1', 'which needs forwarding');
  t.notOk(existsSync('/run/sandboxd') || existsSync('/var/lib/sandboxd'));
});

t.test('nothing is left where there is no other', async (t) => {
  await sh('ip link delete sbxbbbbb000000; nft flush ruleset');
  mkdirSync('/run/sandboxd/net', { recursive: true });
  writeFileSync('/run/sandboxd/net/sbxaaaaa000001', '');
  for (const link of ['sbxaaaaa000000', 'sbxaaaaa000001']) await sh(`ip tuntap add dev ${link} mode tun`);
  await sh(
    `nft 'table ip sandboxd_sbxaaaaa { chain forward { counter drop comment "this host was no router before"; }; }'`,
  );
  await sh(`rm ${LEASES}/${THEIRS}; sh ${POSTRM} purge`);
  t.notOk(existsSync(LEASES));
  t.same(
    (await listLinks()).filter((name) => name.startsWith('sbx')),
    [],
  );
  t.equal(await sh('nft list tables'), '');
  t.equal(readFileSync('/proc/sys/net/ipv4/ip_forward', 'latin1').trim(), '0');
  await sh(`sh ${POSTRM} purge`);
});
