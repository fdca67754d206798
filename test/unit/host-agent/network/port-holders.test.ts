// Holders of published ports, without VMs: identified by the daemon's record and a user id of their own.
import '../../../support/network/own-network.ts';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import t, { type Test } from 'tap';
import { LEASES_DIR } from '../../../../host-agent/src/engines/jail/uid-leases.ts';
import { isRunning, readStartTicks, readUids } from '../../../../host-agent/src/lib/proc.ts';
import { readProcessRecord } from '../../../../host-agent/src/lib/process-record.ts';
import type { PublishedPort } from '../../../../host-agent/src/network/index.ts';
import { Lab, sh } from '../../../support/network/lab.ts';
import { STRANGER } from '../../../support/stranger.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(120_000));
const lab = await Lab.open(t);
const PORTS = join(lab.dir, 'ports');
const state = () => sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route');
const before = await state();

async function open(ports: readonly PublishedPort[]) {
  const network = await lab.openNetwork();
  const slot = await network.allocate();
  await network.create(slot);
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
  t.match(await readFile(lease, 'latin1'), `${holder?.pid} ${holder?.startTicks} {"owner":"test"`);
  t.match(await readFile(lease, 'latin1'), `"record":"${record}"`);
  await network.tidy();
  t.ok(isRunning(holder!));
  await network.destroy(slot);
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
  // The daemon was killed before it recorded the process.
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
