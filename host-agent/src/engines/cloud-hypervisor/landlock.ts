// Whether this kernel supports the Landlock version that the VMM needs to confine itself to its files.
import { readFileSync } from 'node:fs';
import { release } from 'node:os';

/** The VMM requires Landlock ABI version 3. */
const FIRST_KERNEL = [6, 2] as const;

/** The reason why it cannot; undefined if it can, or if only an attempt would show it. */
export function landlockObstacle(
  kernel: string = release(),
  listModules: () => string | undefined = readModules,
): string | undefined {
  const [major = 0, minor = 0] = kernel.split('.').map(Number);
  if (major < FIRST_KERNEL[0] || (major === FIRST_KERNEL[0] && minor < FIRST_KERNEL[1])) {
    return `kernel ${kernel} is older than ${FIRST_KERNEL.join('.')}`;
  }
  const modules = listModules();
  return modules === undefined || modules.trim().split(',').includes('landlock')
    ? undefined
    : 'landlock is not among the security modules of this kernel';
}

function readModules(): string | undefined {
  try {
    return readFileSync('/sys/kernel/security/lsm', 'latin1');
  } catch {
    return undefined;
  }
}
