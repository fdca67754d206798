// Finds out how guests run on this host by running one: an accelerator counts when the kernel prints its first line.
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { EngineContext, EngineProbe } from '../engine.ts';
import { tryFirstLine } from '../first-line.ts';
import type { Accelerator } from './args.ts';
import { bootQemu, QEMU_PROGRAM } from './boot.ts';
import { qemuFiles } from './files.ts';

/** Emulated: some 0.3 s to the first line. Where the accelerator cannot run guests it fails or hangs at once. */
const FIRST_LINE_TIMEOUT_MS: Readonly<Record<Accelerator, number>> = { kvm: 3000, tcg: 20_000 };

export type QemuProbe = { readonly result: EngineProbe; readonly accelerator: Accelerator };

export async function probeQemu(context: EngineContext, signal?: AbortSignal): Promise<QemuProbe> {
  const program = context.program ?? QEMU_PROGRAM;
  const version = await readVersion(program);
  if (version === undefined) {
    const reason = `${program} is not installed (Debian package qemu-system-x86)`;
    return { accelerator: 'tcg', result: { isUsable: false, reason } };
  }
  if (context.forkMemory !== 'auto' && context.forkMemory !== 'copy-on-write') {
    const reason = `its copies always copy memory on write, and fork_memory asks for ${context.forkMemory}`;
    return { accelerator: 'tcg', result: { isUsable: false, reason } };
  }
  const kvm = (await hasKvmDevice())
    ? await tryAccelerator('kvm', context, signal)
    : '/dev/kvm is not there or not accessible';
  if (kvm === undefined) {
    const detail = 'hardware virtualisation (KVM)';
    return { accelerator: 'kvm', result: { isUsable: true, version, detail, isIsolating: true } };
  }
  const tcg = await tryAccelerator('tcg', context, signal);
  if (tcg === undefined) {
    const detail = `software emulation (TCG), which is not an isolation boundary; no KVM: ${kvm}`;
    return { accelerator: 'tcg', result: { isUsable: true, version, detail, isIsolating: false } };
  }
  return { accelerator: 'tcg', result: { isUsable: false, reason: `no guest starts: ${tcg}` } };
}

async function readVersion(program: string): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)(program, ['--version']);
    return /version (\S+)/.exec(stdout)?.[1] ?? 'unknown';
  } catch {
    return undefined;
  }
}

async function hasKvmDevice(): Promise<boolean> {
  return stat('/dev/kvm').then(
    (device) => device.isCharacterDevice(),
    () => false,
  );
}

/** Undefined when a guest printed its first line, else why not. */
function tryAccelerator(
  accelerator: Accelerator,
  context: EngineContext,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const program = context.program ?? QEMU_PROGRAM;
  return tryFirstLine({
    context,
    timeoutMs: FIRST_LINE_TIMEOUT_MS[accelerator],
    boot: (options) => bootQemu(options, { program, accelerator }),
    consolePath: (paths) => qemuFiles(paths).consolePath,
    signal,
  });
}
