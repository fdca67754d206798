// The kernel modules that a guest needs, their load conditions and their order.
import { BuilderError } from '../errors.ts';
import { findSection } from './elf.ts';

/**
 * When a module is loaded: always; for a virtio device with this id; or, for a name, only when the kernel command line
 * has sandbox.modules=<name>.
 */
type ModuleCondition = number | string | 'always';

type ModuleWish = { name: string; when: ModuleCondition };

// Virtio device ids: virtio specification, section 5. Loading a driver costs milliseconds under emulation.
export const GUEST_MODULES: ModuleWish[] = [
  { name: 'virtio_pci', when: 'always' },
  { name: 'virtio_blk', when: 'always' },
  { name: 'overlay', when: 'always' },
  { name: 'virtio_console', when: 3 },
  { name: 'virtio_rng', when: 4 },
  // Always, because a device may be hot-plugged later. The agent decides whether there is an interface.
  { name: 'virtio_net', when: 'always' },
  // Needed to abort the connections of a copy.
  { name: 'tcp_diag', when: 'always' },
  { name: 'virtio_balloon', when: 5 },
  { name: 'vmw_vsock_virtio_transport', when: 19 },
  // Only for container images, which the initramfs detects by their first block.
  { name: 'erofs', when: 'erofs' },
  { name: 'vsock_loopback', when: 'vsock_loopback' },
];

type OrderedModule = { name: string; conditions: ModuleCondition[] };

/** File names use dashes where module names have underscores; both name the same module. */
export function normalizeModuleName(name: string): string {
  return name.replace(/\.ko(\.\w+)?$/, '').replaceAll('-', '_');
}

/** Names of the modules that a module file depends on. */
export function readModuleDependencies(module: Buffer): string[] {
  const info = findSection(module, '.modinfo')?.toString('latin1') ?? '';
  const value = /(?:^|\0)depends=([^\0]*)/.exec(info)?.[1] ?? '';
  return value === '' ? [] : value.split(',').map(normalizeModuleName);
}

/**
 * Load order: each module follows its dependencies. A dependency is loaded whenever one of its dependents is.
 * `dependenciesOf` returns undefined for a built-in module, which is omitted.
 */
export function orderModules(
  wishes: ModuleWish[],
  dependenciesOf: (name: string) => string[] | undefined,
): OrderedModule[] {
  const ordered = new Map<string, Set<ModuleCondition>>();
  const visit = (name: string, when: ModuleCondition, path: string[]): void => {
    if (path.includes(name)) {
      throw new BuilderError(
        'module_missing',
        `kernel modules depend on each other: ${[...path, name].join(' → ')}`,
      );
    }
    const dependencies = dependenciesOf(name);
    if (dependencies === undefined) return;
    for (const dependency of dependencies) visit(dependency, when, [...path, name]);
    ordered.set(name, (ordered.get(name) ?? new Set()).add(when));
  };
  for (const wish of wishes) visit(normalizeModuleName(wish.name), wish.when, []);
  return [...ordered].map(([name, conditions]) => ({
    name,
    conditions: conditions.has('always') ? ['always'] : [...conditions],
  }));
}

/** The text of /modules/list as init reads it: a file name and its conditions; no condition means always. */
export function formatModuleList(modules: OrderedModule[]): string {
  return modules
    .map(({ name, conditions }) =>
      [`${name}.ko`, ...conditions.filter((when) => when !== 'always')].join(' '),
    )
    .map((line) => `${line}\n`)
    .join('');
}

const SIGNATURE_MARK = Buffer.from('~Module signature appended~\n');
/** Layout of the record before the mark (include/linux/module_signature.h): its last four bytes are the length. */
const SIGNATURE_RECORD_BYTES = 12;

/**
 * Removes a module's appended signature. The guest does not enforce signatures: the trusted unit is the image, which
 * the host verifies. Checking them would cost an emulated boot 35 ms of RSA.
 */
export function stripModuleSignature(module: Buffer): Buffer {
  const markAt = module.length - SIGNATURE_MARK.length;
  if (markAt < SIGNATURE_RECORD_BYTES || !module.subarray(markAt).equals(SIGNATURE_MARK)) return module;
  const signatureBytes = module.readUInt32BE(markAt - 4);
  const end = markAt - SIGNATURE_RECORD_BYTES - signatureBytes;
  return end > 0 ? module.subarray(0, end) : module;
}
