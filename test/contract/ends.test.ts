// The Cloud Hypervisor engine against the stand-in: a guest that is over is known to be by the VMM's events alone, with
// nobody connected to it, whether or not its VMM ends.
import { mkdirSync } from 'node:fs';
import { appendFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { EventTail } from '../../host-agent/src/engines/cloud-hypervisor/events.ts';
import type { Vm, VmmIdentity } from '../../host-agent/src/engines/engine.ts';
import { Guest } from '../../host-agent/src/guest/guest.ts';
import {
  type FakeHost,
  MEMORY_BYTES,
  makeFakeHost,
  powerOff,
} from '../support/fake-cloud-hypervisor/host.ts';

t.setTimeout(120_000);
const soon = (): AbortSignal => AbortSignal.timeout(60_000);
const NEVER_MS = 10 ** 9;

async function boot(host: FakeHost, engine: ReturnType<FakeHost['engine']>, name: string): Promise<Vm> {
  return engine.boot(host.bootOptions(host.makePaths(name)));
}

t.test('a VMM that stays after its guest is ended, with the cause', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const [off, panicked, reset] = await Promise.all(
    ['off', 'panicked', 'reset'].map((name) => boot(host, engine, name)),
  );
  host.set({ endMs: NEVER_MS, hasPvpanic: true });
  const guest = new Guest({
    source: off!,
    incarnation: 'one',
    log: host.bootOptions(off!.identity.paths).log,
  });
  await guest.connect(soon());
  powerOff(guest);
  t.match(await off!.exited, { reason: 'the guest powered off', signal: 'SIGKILL' });
  guest.close(new Error('over'));
  process.kill(panicked!.identity.pid, 'SIGUSR2');
  t.match(await panicked!.exited, { reason: 'the guest panicked', signal: 'SIGKILL' });
  // What it needs to start again is there once more: it boots anew.
  const startDir = join(reset!.identity.paths.dir, 'start');
  mkdirSync(startDir);
  await writeFile(join(startDir, 'kernel'), '');
  process.kill(reset!.identity.pid, 'SIGUSR1');
  t.match(await reset!.exited, { reason: 'the guest reset itself', signal: 'SIGKILL' });
  t.equal(
    host.logLines.filter(({ msg, diagnosis }) => msg === 'ended a VM' && diagnosis !== undefined).length,
    3,
  );
});

t.test('a copy, and a VM of an earlier daemon, are watched alike', async (t) => {
  const host = makeFakeHost(t);
  host.set({ hasPvpanic: true });
  const engine = host.engine();
  await engine.probe();
  const source = await boot(host, engine, 'source');
  const saved = await source.save({
    dir: host.makeSaveDir(),
    memoryBytes: MEMORY_BYTES,
    whilePaused: async () => undefined,
  });
  const copy = await engine.restore({ ...host.bootOptions(host.makePaths('copy')), saved });
  process.kill(copy.identity.pid, 'SIGUSR2');
  t.match(await copy.exited, { reason: 'the guest panicked' });

  const before = await boot(host, engine, 'before');
  for (const vm of [source, before]) vm.detach();
  // While no daemon looks, and while one does.
  process.kill(before.identity.pid, 'SIGUSR2');
  const adopt = ({ identity }: Vm): Vm =>
    host
      .engine()
      .adopt(JSON.parse(JSON.stringify(identity)) as VmmIdentity, host.bootOptions(identity.paths)) as Vm;
  t.match(await adopt(before).exited, { reason: 'the guest panicked' });
  const again = adopt(source);
  process.kill(source.identity.pid, 'SIGUSR2');
  t.match(await again.exited, { reason: 'the guest panicked' });
});

t.test('a VMM that says that its VM does not run is ended at adoption', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const vm = await boot(host, engine, 'one');
  vm.detach();
  host.set({ shownState: 'Shutdown' });
  const adopted = engine.adopt(vm.identity, host.bootOptions(vm.identity.paths)) as Vm;
  t.match(await adopted.exited, { reason: 'the guest powered off' });
});

t.test('the account is followed piece by piece, and only what ends a guest is kept', async (t) => {
  const host = makeFakeHost(t);
  const path = join(host.dir, 'events');
  using tail = new EventTail(path);
  t.same(await tail.read(), [], 'no file');
  const text = (source: string, event: string): string => `${JSON.stringify({ source, event }, null, 2)}\n\n`;
  await writeFile(path, text('vm', 'restoring') + text('vm', 'deleted'));
  t.match(await tail.read(), [{ event: 'deleted' }]);
  await appendFile(path, text('vm', 'restoring') + text('vm', 'restored'));
  t.same(await tail.read(), [], 'of a try that failed');
  await appendFile(path, text('virtio-device', 'reset').repeat(10_000));
  t.same(await tail.read(), []);
  const last = text('vm', 'rebooting');
  await appendFile(path, last.slice(0, 9));
  t.same(await tail.read(), []);
  await appendFile(path, last.slice(9));
  t.match(await Promise.all([tail.read(), tail.read()]), [
    [{ event: 'rebooting' }],
    [{ event: 'rebooting' }],
  ]);
});
