// Who holds published ports, without virtual machines: known by what the daemon wrote down, a user of its own.
import '../../../support/network/own-network.ts';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import t, { type Test } from 'tap';
import { LEASES_DIR } from '../../../../host-agent/src/engines/jail/uid-leases.ts';
import { isRunning, readStartTicks, readUids } from '../../../../host-agent/src/lib/proc.ts';
import { readProcessRecord } from '../../../../host-agent/src/lib/process-record.ts';
import { findEarlierHolders } from '../../../../host-agent/src/network/earlier-holders.ts';
import type { PublishedPort } from '../../../../host-agent/src/network/index.ts';
import { endHolders } from '../../../../host-agent/src/network/port-holder.ts';
import { Lab, sh } from '../../../support/network/lab.ts';
import { STRANGER } from '../../../support/stranger.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(120_000));
const lab = await Lab.open(t);
const PORTS = join(lab.dir, 'ports');
const state = () => sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route');
const before = await state();
const BECOME = 'process.setgroups([]); process.setgid(USER); process.setuid(USER)';

async function open(ports: readonly PublishedPort[]) {
  const network = await lab.openNetwork();
  const slot = await network.lease();
  await network.make(slot);
  await network.publish(slot, ports);
  const record = join(PORTS, basename(slot.namespace));
  return { network, slot, record };
}

copyFileSync('/usr/bin/yes', join(lab.dir, 'portd'));
await sh(`chmod 755 ${lab.dir} ${lab.dir}/portd`);

/** A process of another user that looks like a holder of these ports. */
async function plant(t: Test, namespace: string): Promise<ChildProcess> {
  const child = spawn(join(lab.dir, 'portd'), [namespace], {
    argv0: 'sandboxd-portd',
    uid: STRANGER,
    gid: STRANGER,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  return child;
}

t.test('who holds ports is known by its record, and never by its words', async (t) => {
  const { network, slot, record } = await open([{ hostPort: 8080, guestPort: 8000 }]);
  const planted = [await plant(t, slot.namespace), await plant(t, `${slot.namespace}0`)];
  const { uid, process: holder } = readProcessRecord(record)!;
  t.ok(holder && isRunning(holder));
  t.same(readUids(holder!.pid), [uid, uid, uid, uid], 'a user that nobody else has');
  const lease = join(LEASES_DIR, String(uid));
  t.equal(await readFile(lease, 'latin1'), `${holder?.pid} ${holder?.startTicks}\n`);
  await network.tidy();
  t.ok(isRunning(holder!));
  await network.remove(slot);
  await network.close();
  t.equal(await state(), before);
  t.notOk(existsSync(PORTS));
  t.notOk(isRunning(holder!));
  t.notOk(existsSync(lease));
  for (const { pid = 0, exitCode, signalCode } of planted)
    t.match([exitCode, signalCode, readStartTicks(pid)], [null, null, Number], 'it is of somebody else');
});

t.test('a holder that another daemon started too late is ended by the next', async (t) => {
  const { network, record } = await open([{ hostPort: 8080, guestPort: 8000 }]);
  const { uid, process: holder } = readProcessRecord(record)!;
  // It was killed before it could write down which process that is.
  writeFileSync(record, `${(await readFile(record, 'latin1')).split('\n')[0]}\n`);
  t.match(readProcessRecord(record), { uid, process: undefined });
  await network.close();
  const next = await lab.openNetwork();
  await next.tidy();
  t.notOk(isRunning(holder!));
  t.notOk(existsSync(PORTS));
  await next.close();
  t.equal(await state(), before);
});

t.test('one of a daemon that kept no records is known by the sockets that root made', async (t) => {
  const dir = join(lab.dir, 'net');
  mkdirSync(dir, { recursive: true });
  await sh(`chmod 755 ${lab.dir} ${dir}`);
  const listen = async (name: string, user: number) => {
    const path = join(dir, name);
    const [early, late] = [user === 0 ? '' : BECOME, user === 0 ? BECOME : ''].map((text) =>
      text.replaceAll('USER', String(user === 0 ? 65_534 : user)),
    );
    writeFileSync(
      path,
      `${early}; require('net').createServer().listen(0, '0.0.0.0', () => { ${late}; console.log('up'); })`,
      { mode: 0o644 },
    );
    const child = spawn(process.execPath, [path], {
      argv0: 'sandboxd-portd',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.teardown(() => child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    return { child, path };
  };
  const ours = await listen('sbx1', 0);
  const other = await listen('sbx2', STRANGER);
  t.match(findEarlierHolders(ours.path), [{ pid: ours.child.pid, namespace: ours.path }]);
  t.same(findEarlierHolders(other.path), []);
  t.match(findEarlierHolders(`${dir}/`), [{ pid: ours.child.pid }]);
  t.equal(findEarlierHolders(`${dir}/`).length, 1);
  const ended = once(ours.child, 'exit');
  await endHolders(
    { record: join(lab.dir, 'none'), namespace: ours.path },
    { take: async () => 0, handOver: async () => undefined, giveBack: async () => undefined },
  );
  t.match(await ended, [null, 'SIGKILL']);
  await sh(`rm -rf ${dir}`);
});
