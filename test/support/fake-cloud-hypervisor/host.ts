// A host for the Cloud Hypervisor engine under test, with the fake as the VMM's program.
import { mkdirSync, mkdtempSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Test } from 'tap';
import { CloudHypervisorEngine } from '../../../host-agent/src/engines/cloud-hypervisor/index.ts';
import type { ForkMemory, VmPaths } from '../../../host-agent/src/engines/engine.ts';
import type { Guest } from '../../../host-agent/src/guest/guest.ts';
import { makeFakeHost as makeHost } from '../fake-host.ts';
import { HELPERS } from '../helper-programs.ts';
import { type Fault, type Knobs, USUAL } from './knobs.ts';

export { MEMORY_BYTES } from '../fake-host.ts';

const MAIN = resolve(import.meta.dirname, 'main.ts');

export type FakeHost = ReturnType<typeof makeFakeHost>;

/** The teardown checks that no process is left. */
export function makeFakeHost(t: Test) {
  const program = { main: MAIN, name: 'cloud-hypervisor', variable: 'FAKE_VMM_KNOBS', usual: USUAL as Knobs };
  const host = makeHost(t, program);
  const { dir, set, log } = host;
  for (const name of ['scratch', 'locks']) mkdirSync(join(dir, name));
  set({ locksDir: join(dir, 'locks') });
  return {
    ...host,
    fault: (...faults: Fault[]) => set({ faults }),
    engine: (forkMemory: ForkMemory = 'auto', probeTimeoutMs?: number) =>
      new CloudHypervisorEngine({
        program: host.program,
        forkMemory,
        kernelPath: join(dir, 'kernel'),
        initramfsPath: join(dir, 'initramfs'),
        scratchDir: join(dir, 'scratch'),
        probeTimeoutMs,
        claimProgram: HELPERS.claim,
        memfdProgram: HELPERS.memfd,
        log,
      }),
    spec: (paths: VmPaths) => host.bootOptions(paths).spec,
    makeSaveDir: () => mkdtempSync(join(dir, 'saved-')),
  };
}

/** The guest's own command powers off its machine. */
export function powerOff(guest: Guest): void {
  guest.exec(
    { cmd: ['poweroff'], env: {}, timeout_s: 0 },
    { output: () => undefined, exit: () => undefined },
  );
}
