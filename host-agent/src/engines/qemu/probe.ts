// Finds out how guests run on this host by running one: an accelerator counts when the kernel prints its first line.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { toError } from '../../lib/errors.ts';
import { tailFile } from '../../lib/tail.ts';
import { deadline, poll } from '../../lib/wait.ts';
import type { EngineContext, EngineProbe } from '../engine.ts';
import type { Accelerator } from './args.ts';
import { bootQemu, QEMU_PROGRAM } from './boot.ts';
import { qemuFiles } from './files.ts';

/** Emulated: some 0.3 s to the first line. Where the accelerator cannot run guests it fails or hangs at once. */
const FIRST_LINE_TIMEOUT_MS: Readonly<Record<Accelerator, number>> = { kvm: 3000, tcg: 20_000 };
const PROBE_MEMORY_MIB = 256;

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
async function tryAccelerator(
  accelerator: Accelerator,
  context: EngineContext,
  outer?: AbortSignal,
): Promise<string | undefined> {
  const program = context.program ?? QEMU_PROGRAM;
  const dir = join(context.scratchDir, `probe-${randomBytes(4).toString('hex')}`);
  await mkdir(dir, { mode: 0o700 });
  const paths = { dir, socketDir: dir };
  const spec = {
    vcpus: 1,
    memoryMib: PROBE_MEMORY_MIB,
    kernelPath: context.kernelPath,
    initramfsPath: context.initramfsPath,
    bootArgs: 'earlyprintk=ttyS0,115200 loglevel=7',
    disks: [],
  };
  const timeoutMs = context.probeTimeoutMs ?? FIRST_LINE_TIMEOUT_MS[accelerator];
  using limit = deadline(timeoutMs, () => new Error(`no console line within ${timeoutMs} ms`), outer);
  try {
    const vm = await bootQemu(
      { spec, paths, log: context.log, signal: limit.signal },
      { program, accelerator },
    );
    try {
      await poll(
        async () => {
          if ((await tailFile(qemuFiles(paths).consolePath, 1)) !== '') return true;
          if (vm.exit !== undefined) throw new Error(`${vm.exit.reason}\n${await vm.diagnose()}`);
          return undefined;
        },
        10,
        limit.signal,
      );
      return undefined;
    } finally {
      await vm.kill();
    }
  } catch (error) {
    outer?.throwIfAborted();
    return toError(error).message;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
