// Cold boot of a VM from its kernel.
import { rm, symlink } from 'node:fs/promises';
import type { BootOptions, Vm } from '../engine.ts';
import { isDirect } from '../start.ts';
import { keepConsole, startVmm, type VmmSetup } from './start.ts';
import { buildVmConfig } from './vm-config.ts';

/** For opening disks and loading the kernel; only an overloaded host takes longer. */
const CALL_TIMEOUT_MS = 60_000;

export function bootVm(options: BootOptions, setup: VmmSetup): Promise<Vm> {
  const { spec, signal } = options;
  return startVmm(
    options,
    setup,
    { kind: 'anonymous' },
    [spec.kernelPath],
    false,
    (files) => symlink(spec.kernelPath, files.startKernelPath),
    async (api, files) => {
      const call = { timeoutMs: CALL_TIMEOUT_MS, signal };
      // `vm.create` validates only the format; invalid disks are reported by `vm.boot`.
      await api.put(
        'vm.create',
        buildVmConfig({
          spec,
          files,
          hasLandlock: setup.hasLandlock,
          isDirect: isDirect(options, setup.jail),
        }),
        call,
      );
      await keepConsole(files);
      await api.put('vm.boot', undefined, call);
      await rm(files.startDir, { recursive: true });
    },
  );
}
