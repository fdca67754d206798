// Finds out whether guests run on this host with one accelerator, by running one.
import { runProgram } from '../../lib/programs.ts';
import type { EngineContext, EngineProbe } from '../engine.ts';
import { kvmObstacle, readKvmFacts } from '../kvm-device.ts';
import { readProgramFacts } from '../program.ts';
import { tryGuest } from '../trial.ts';
import { bootQemu, type QemuSetup, restoreQemu } from './boot.ts';
import { QEMU_PROGRAM, qemuFiles } from './files.ts';

const VERSION_TIMEOUT_MS = 10_000;

/** Why guests do not run here, from what can be seen without one. */
export async function findObstacle(
  { forkMemory, kvmPath }: EngineContext,
  { program, accelerator }: QemuSetup,
  version: string | undefined,
): Promise<string | undefined> {
  if (version === undefined) return `${program} is not installed (Debian package qemu-system-x86)`;
  if (forkMemory !== 'auto' && forkMemory !== 'copy-on-write')
    return `its copies always copy memory on write, and fork_memory asks for ${forkMemory}`;
  return accelerator === 'kvm' ? kvmObstacle(kvmPath) : undefined;
}

export async function probeQemu(
  context: EngineContext,
  setup: QemuSetup,
  signal?: AbortSignal,
): Promise<EngineProbe> {
  const { program, accelerator } = setup;
  const refuse = (reason: string): EngineProbe => ({ isUsable: false, reason });
  const version = await readVersion(program);
  const obstacle = await findObstacle(context, setup, version);
  if (version === undefined || obstacle !== undefined) return refuse(obstacle ?? 'it has no version');
  const failure = await tryGuest({
    context,
    boot: (options) => bootQemu(options, setup),
    restore: (options) => restoreQemu(options, setup),
    consolePath: (paths) => qemuFiles(paths).consolePath,
    signal,
  });
  if (failure !== undefined) return refuse(failure);
  const detail =
    accelerator === 'kvm'
      ? 'hardware virtualisation (KVM)'
      : 'software emulation (TCG), which is not an isolation boundary';
  return { isUsable: true, version, detail };
}

export async function readFingerprint(
  { program: named, kvmPath, forkMemory }: EngineContext,
  { accelerator }: QemuSetup,
): Promise<Readonly<Record<string, string>>> {
  const program = named ?? QEMU_PROGRAM;
  const version = (await readVersion(program)) ?? 'absent';
  const device = accelerator === 'kvm' ? await readKvmFacts(kvmPath) : '';
  return { ...(await readProgramFacts(program)), version, device, forkMemory };
}

export async function readVersion(program: string): Promise<string | undefined> {
  try {
    const { stdout } = await runProgram(program, ['--version'], { timeout: VERSION_TIMEOUT_MS });
    return /version (\S+)/.exec(stdout)?.[1] ?? 'unknown';
  } catch {
    return undefined;
  }
}
