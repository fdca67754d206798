// Assembles the initramfs: init, the ordered modules and their list.
import { type CpioEntry, FILE_TYPE, writeCpio } from './cpio.ts';
import {
  formatModuleList,
  GUEST_MODULES,
  normalizeModuleName,
  orderModules,
  readModuleDependencies,
  stripModuleSignature,
} from './modules.ts';
import type { UnpackedKernel } from './package.ts';

/** Not compressed: under emulation, lz4 and zstd made no measurable difference for these 2 MB. */
export async function buildInitramfs(init: Buffer, kernel: UnpackedKernel): Promise<Buffer> {
  const modules = await collectModules(kernel);
  const ordered = orderModules(GUEST_MODULES, (name) => {
    const module = modules.get(name);
    return module && readModuleDependencies(module);
  });
  const entries: CpioEntry[] = [
    directory('dev'),
    // The kernel opens it as init's standard streams before devtmpfs is mounted.
    { path: 'dev/console', mode: FILE_TYPE.characterDevice | 0o600, device: [5, 1] },
    directory('modules'),
    { path: 'modules/list', mode: FILE_TYPE.file | 0o444, content: Buffer.from(formatModuleList(ordered)) },
    ...ordered.map(({ name }) => ({
      path: `modules/${name}.ko`,
      mode: FILE_TYPE.file | 0o444,
      content: stripModuleSignature(modules.get(name) ?? Buffer.alloc(0)),
    })),
    { path: 'init', mode: FILE_TYPE.file | 0o555, content: init },
  ];
  return writeCpio(entries);
}

/** The requested modules and, transitively, their dependencies, without built-in ones. */
async function collectModules(kernel: UnpackedKernel): Promise<Map<string, Buffer>> {
  const modules = new Map<string, Buffer>();
  const pending = GUEST_MODULES.map((wish) => normalizeModuleName(wish.name));
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    if (modules.has(name) || kernel.isBuiltin(name)) continue;
    const content = await kernel.readModule(name);
    modules.set(name, content);
    pending.push(...readModuleDependencies(content));
  }
  return modules;
}

function directory(path: string): CpioEntry {
  return { path, mode: FILE_TYPE.directory | 0o755 };
}
