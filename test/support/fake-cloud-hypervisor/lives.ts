// Lives of VMs on the fake VMM: each function is one step of a test.
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SavedVm, Vm, VmPaths } from '../../../host-agent/src/engines/engine.ts';
import { Guest } from '../../../host-agent/src/guest/guest.ts';
import { type FakeHost, MEMORY_BYTES } from './host.ts';

type FakeVm = { readonly vm: Vm; readonly guest: Guest; readonly paths: VmPaths };

/** Generous: other things run on this machine. */
export const soon = (): AbortSignal => AbortSignal.timeout(30_000);

export async function greet(host: FakeHost, vm: Vm, paths: VmPaths, name: string): Promise<FakeVm> {
  const guest = new Guest({ source: vm, incarnation: name, log: host.bootOptions(paths).log });
  await guest.connect(soon());
  return { vm, guest, paths };
}

export async function boot(
  host: FakeHost,
  engine: ReturnType<FakeHost['engine']>,
  name: string,
): Promise<FakeVm> {
  const paths = host.makePaths(name);
  return greet(host, await engine.boot(host.bootOptions(paths)), paths, name);
}

export async function copy(
  host: FakeHost,
  engine: ReturnType<FakeHost['engine']>,
  name: string,
  saved: SavedVm,
): Promise<FakeVm> {
  const paths = host.makePaths(name);
  return greet(host, await engine.restore({ ...host.bootOptions(paths), saved }), paths, name);
}

export async function save({ vm, paths }: FakeVm, dir: string): Promise<SavedVm> {
  return vm.save({
    dir,
    memoryBytes: MEMORY_BYTES,
    whilePaused: () => copyFile(join(paths.dir, 'layer'), join(dir, 'disk')),
  });
}

export async function end(...vms: readonly FakeVm[]): Promise<void> {
  for (const { vm, guest } of vms) {
    guest.close(new Error('the test is over'));
    await vm.kill();
  }
}
