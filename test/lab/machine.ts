// The lab's machine: an emulated computer whose CPU has SVM, so that the Linux in it has a working /dev/kvm.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCommand } from '../../rootfs-builder/src/lib/command.ts';

export type Board = {
  /** Values of QEMU's options of these names. */
  readonly machine: string;
  readonly cpu: string;
  /** Additions to the kernel's command line. */
  readonly kernelArgs: readonly string[];
};

/** Without ERMS, FSRM and SMAP, which emulation makes slow: see the engine's own arguments for emulated guests. */
const X86_BOARD: Board = {
  machine: 'q35,usb=off,vmport=off,smbus=off,sata=off,graphics=off,hpet=off',
  cpu: 'max,-erms,-fsrm,-smap',
  kernelArgs: ['console=ttyS0', 'reboot=t', 'tsc=reliable', 'no_timer_check'],
};

type MachineOptions = {
  /** A directory of its own, for the console and the status. */
  readonly dir: string;
  /** QEMU: its name or path. */
  readonly program: string;
  /** Absent: a PC. */
  readonly board?: Board;
  readonly kernelPath: string;
  readonly initramfsPath: string;
  /** In the order of their names from /dev/vda on. */
  readonly disks: readonly { readonly path: string; readonly isReadOnly: boolean }[];
  readonly cpus: number;
  readonly memoryMib: number;
  /** Arguments for more devices. */
  readonly devices?: readonly string[];
  readonly onOutput: (chunk: Buffer) => void;
  readonly signal?: AbortSignal;
};

/** `status`: the command's own, undefined when the machine ended without one. `end`: how its program ended. */
type MachineEnd = { readonly status: number | undefined; readonly end: string };

/** Runs the lab to its end. */
export async function runMachine(options: MachineOptions): Promise<MachineEnd> {
  const { dir, signal } = options;
  const statusPath = join(dir, 'status');
  await using sockets = await makeSockets(options.onOutput);
  const child = spawn(options.program, machineArgs(options, sockets.dir, statusPath), {
    stdio: ['ignore', 'inherit', 'inherit'],
    detached: true, // the terminal's interrupts are for the runner, which ends the machine itself
  });
  const stop = (): boolean => child.kill('SIGKILL');
  signal?.addEventListener('abort', stop, { once: true });
  const end = await new Promise<string>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signalName) => resolve(signalName ?? `exit code ${code}`));
  });
  signal?.removeEventListener('abort', stop);
  const status = (await readFile(statusPath, 'utf8').catch(() => '')).trim();
  return { status: /^\d+$/.test(status) ? Number(status) : undefined, end };
}

/** `QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)` */
export async function readMachineVersion(program: string): Promise<string> {
  return (await runCommand(program, ['--version'])).split('\n')[0] ?? '';
}

/** In a directory with a short name: a socket's path has 107 bytes, and a checkout may be anywhere. */
async function makeSockets(
  onOutput: (chunk: Buffer) => void,
): Promise<{ readonly dir: string } & AsyncDisposable> {
  const dir = await mkdtemp(join(tmpdir(), 'lab-'));
  const server = createServer((socket) => socket.on('data', onOutput).on('error', () => {}));
  await once(server.listen(join(dir, 'output')), 'listening');
  return {
    dir,
    async [Symbol.asyncDispose]() {
      // Ends when the machine's side has ended, so the last line is not lost.
      await new Promise((resolve) => server.close(resolve));
      await rm(dir, { recursive: true, force: true });
    },
  };
}

function machineArgs(options: MachineOptions, socketsDir: string, statusPath: string): string[] {
  const { machine, cpu, kernelArgs } = options.board ?? X86_BOARD;
  const commandLine = [
    ...[...kernelArgs, 'quiet', 'loglevel=4', 'panic=-1'],
    ...['random.trust_cpu=on', 'cryptomgr.notests', 'mitigations=off'],
    // A tick that comes again: QEMU loses interrupts now and then, and a timer of one shot would be the last.
    ...['nohz=off', 'highres=off'],
    'sandbox.init=/lab/init',
  ].join(' ');
  return [
    ...['-no-user-config', '-nodefaults', '-display', 'none', '-no-reboot'],
    ...['-machine', machine],
    ...['-accel', 'tcg,thread=multi,tb-size=1024', '-cpu', cpu],
    ...['-smp', String(options.cpus), '-m', `${options.memoryMib}M`],
    ...['-kernel', options.kernelPath, '-initrd', options.initramfsPath, '-append', commandLine],
    ...['-serial', `file:${join(options.dir, 'console.log')}`, '-device', 'virtio-rng-pci'],
    ...['-qmp', `unix:${join(socketsDir, 'qmp')},server=on,wait=off`],
    ...['-device', 'virtio-serial-pci'],
    ...['-chardev', `socket,id=output,path=${join(socketsDir, 'output')}`],
    ...['-device', 'virtserialport,chardev=output,name=lab.output'],
    ...['-chardev', `file,id=status,path=${statusPath}`],
    ...['-device', 'virtserialport,chardev=status,name=lab.status'],
    ...(options.devices ?? []),
    ...options.disks.flatMap(({ path, isReadOnly }, index) => [
      ...[
        '-drive',
        `if=none,id=d${index},file=${path},format=raw,cache=unsafe,readonly=${isReadOnly ? 'on' : 'off'}`,
      ],
      ...['-device', `virtio-blk-pci,drive=d${index}`],
    ]),
  ];
}
