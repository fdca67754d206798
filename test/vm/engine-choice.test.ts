// The choice of an engine with real guests: KVM that is not what it seems, and an engine that fails the first real guest.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { resolveKernel } from '@sandboxd/rootfs-builder';
import { type Logger, pino } from 'pino';
import t, { type Test } from 'tap';
import { EngineChoice } from '../../host-agent/src/engines/choice.ts';
import { makeEngines } from '../../host-agent/src/engines/index.ts';
import { readCounts } from '../../host-agent/src/engines/trial.ts';
import { keepAlive } from '../../host-agent/src/lib/lazy.ts';
import { type BadKvm, writeBadKvm } from '../support/bad-kvm.ts';
import { BAKED_DATA_DIR, startDaemon } from '../support/daemon.ts';
import { makeFakeHost } from '../support/fake-cloud-hypervisor/host.ts';
import { HELPERS } from '../support/helper-programs.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const never = new AbortController().signal;
const lines: Record<string, unknown>[] = [];
const log: Logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) });

async function choose(t: Test, bad: BadKvm): Promise<EngineChoice> {
  // As a daemon that starts: VMMs keep no process alive.
  using _alive = keepAlive();
  const dir = mkdtempSync(join(tmpdir(), 'choice-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const program = join(dir, 'program');
  writeBadKvm(program, bad);
  const kernel = await resolveKernel(BAKED_DATA_DIR, {});
  const { vmlinuxPath: kernelPath, initramfsPath } = kernel;
  const scratchDir = join(dir, 'p');
  // Any device will do, as the program does not open it.
  const context = {
    kernelPath,
    initramfsPath,
    scratchDir,
    kvmPath: '/dev/null',
    forkMemory: 'auto',
    claimProgram: HELPERS.claim,
    memfdProgram: HELPERS.memfd,
    log,
  } as const;
  const engines = makeEngines('qemu', context, { qemu: program });
  const choice = await EngineChoice.open(
    { engines, kernel, scratchDir, cacheDir: join(dir, 'e'), log },
    never,
  );
  await choice.chosen(never);
  t.same(readdirSync(dir).sort(), ['e', 'program'], 'the probes leave nothing');
  return choice;
}

t.test('KVM that only seems to work is not taken', async (t) => {
  for (const [bad, verdict] of [
    ['dies', /^slower than emulation, which took \d+ ms$/],
    ['crawls', /^slower than emulation, which took \d+ ms$/],
    ['no-restore', /^slower than emulation|^cannot (restore a saved guest|have a restored guest go on): /],
  ] as const) {
    const choice = await choose(t, bad);
    t.equal(choice.current.accelerator, 'tcg', bad);
    t.match(choice.tried, [
      { name: 'qemu', accelerator: 'kvm', verdict },
      { accelerator: 'tcg', verdict: 'works' },
    ]);
    t.match(choice.reason, /not an isolation boundary; qemu \(kvm\): /);
  }
});

t.test('an engine whose first real guest does not start is replaced, and the create succeeds', async (t) => {
  const host = makeFakeHost(t);
  // Trial guests live; the agent of a real one never answers.
  host.fault({ at: 'vsock', kind: 'hang' });
  // In its jail there is no shell for the program, which is a script.
  const program = ['--cloud-hypervisor-program', host.program, '--insecure-no-jail'];
  const flags = ['--engine', 'auto', ...program, '--boot-timeout-s', '20'];
  const env = { SANDBOXD_ENGINE: 'auto' };
  const daemon = await startDaemon(t, { flags, env });
  const engine = async () => (await daemon.api.ask('listProfiles')).engine;
  // The trial may still be under way.
  while ((await engine())?.state === 'trying') await sleep(50);
  t.match(await engine(), { name: 'cloud-hypervisor', accelerator: 'kvm', version: '53.0' });
  const { id } = await daemon.api.create();
  t.equal(await daemon.api.sh(id, 'echo fine'), 'fine');
  const verdict = /^the first guest did not start: .*the guest agent did not answer within 20000 ms/;
  t.match(await engine(), { name: 'qemu', tried: [{ name: 'cloud-hypervisor', verdict }] });
  t.ok(daemon.log.some(({ msg }) => msg === 'engine replaced'));
  await daemon.api.delete(id);
});

t.test('only a line of the program itself counts', async (t) => {
  const nonce = '0123456789abcdef';
  t.same(readCounts(`Command line: sandbox.probe=${nonce}\nsandbox-probe: ${nonce} 1.\n`, nonce), []);
  t.same(readCounts('sandbox-probe: 6b9a5a9b5a9b5a9b 1.\n', nonce), []);
});
