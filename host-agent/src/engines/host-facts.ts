// What engines look for on the host: their programs, the KVM device, the CPU.
import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import { access, realpath, stat } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';

/** Its existence does not prove that guests run. */
export const KVM_PATH = '/dev/kvm';

/** Why the device cannot be used; undefined if it may work. */
export async function kvmObstacle(path = KVM_PATH): Promise<string | undefined> {
  const device = await stat(path).catch(() => undefined);
  if (device === undefined) return `${path} is not there`;
  if (!device.isCharacterDevice()) return `${path} is not a device`;
  return access(path, constants.R_OK | constants.W_OK).then(
    () => undefined,
    () => `${path} is not accessible`,
  );
}

/** A text that changes with the device or its permissions. */
export async function readKvmFacts(path = KVM_PATH): Promise<string> {
  const device = await stat(path).catch(() => undefined);
  return JSON.stringify([await kvmObstacle(path), device?.rdev, device?.mode, device?.uid, device?.gid]);
}

/** Model of the host's CPU. A saved guest can be restored only on an equal one. */
export function hostCpu(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown';
  return model === 'unknown' ? (readCpuNumbers() ?? model) : model;
}

/** Kernels for arm64 name no model, but numbers: implementer, variant, part, revision. Undefined without them. */
function readCpuNumbers(cpuinfo = '/proc/cpuinfo'): string | undefined {
  const lines = readFileSync(cpuinfo, 'latin1')
    .split('\n\n', 1)[0]
    ?.match(/^CPU (?!architecture).*$/gm);
  return lines?.map((line) => line.replace(/\s*:\s*/, ' ')).join(', ');
}

/** Absolute path of a program in PATH; the name itself if it is not found. */
export function findProgram(name: string, path = process.env.PATH ?? ''): string {
  if (name.includes('/')) return name;
  const isProgram = (file: string): boolean => {
    try {
      accessSync(file, constants.X_OK);
      return statSync(file).isFile();
    } catch {
      return false;
    }
  };
  const files = path.split(':').map((dir) => join(dir === '' ? '.' : dir, name));
  const found = files.find(isProgram);
  return found === undefined ? name : resolve(found);
}

/** Facts that change when the program is replaced. */
export async function readProgramFacts(name: string): Promise<Readonly<Record<string, string>>> {
  const program = findProgram(name);
  const path = await realpath(program).catch(() => program);
  const file = await stat(path).catch(() => undefined);
  return { program, path, size: String(file?.size), modifiedMs: String(file?.mtimeMs) };
}
