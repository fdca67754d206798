// The lab's machine: an emulated computer whose CPU has SVM, so that the Linux in it has a working /dev/kvm.
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { runCommand } from '../../rootfs-builder/src/lib/command.ts';

/** Without ERMS, FSRM and SMAP, which emulation makes slow: see the engine's own arguments for emulated guests. */
const CPU = 'max,-erms,-fsrm,-smap';

export type MachineOptions = {
  /** A directory of its own, for sockets, the console and the status. */
  readonly dir: string;
  /** QEMU: its name or path. */
  readonly program: string;
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
export type MachineEnd = { readonly status: number | undefined; readonly end: string };

/** Runs the lab to its end. */
export async function runMachine(options: MachineOptions): Promise<MachineEnd> {
  const { dir, signal } = options;
  const statusPath = join(dir, 'status');
  await using output = await listenForOutput(join(dir, 'output.sock'), options.onOutput);
  const child = spawn(options.program, machineArgs(options, output.path, statusPath), {
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

async function listenForOutput(
  path: string,
  onOutput: (chunk: Buffer) => void,
): Promise<{ readonly path: string } & AsyncDisposable> {
  const server = createServer((socket) => socket.on('data', onOutput).on('error', () => {}));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    path,
    // Ends when the machine's side has ended, so the last line is not lost.
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

function machineArgs(options: MachineOptions, outputSocket: string, statusPath: string): string[] {
  const commandLine = [
    ...['console=ttyS0', 'quiet', 'loglevel=4', 'panic=-1', 'reboot=t'],
    ...['tsc=reliable', 'no_timer_check', 'random.trust_cpu=on', 'cryptomgr.notests', 'mitigations=off'],
    // A tick that comes again: QEMU loses interrupts now and then, and a timer of one shot would be the last.
    ...['nohz=off', 'highres=off'],
    'sandbox.init=/lab/init',
  ].join(' ');
  return [
    ...['-no-user-config', '-nodefaults', '-display', 'none', '-no-reboot'],
    ...['-machine', 'q35,usb=off,vmport=off,smbus=off,sata=off,graphics=off,hpet=off'],
    ...['-accel', 'tcg,thread=multi,tb-size=1024', '-cpu', CPU],
    ...['-smp', String(options.cpus), '-m', `${options.memoryMib}M`],
    ...['-kernel', options.kernelPath, '-initrd', options.initramfsPath, '-append', commandLine],
    ...['-serial', `file:${join(options.dir, 'console.log')}`, '-device', 'virtio-rng-pci'],
    ...['-qmp', `unix:${join(options.dir, 'qmp.sock')},server=on,wait=off`],
    ...['-device', 'virtio-serial-pci'],
    ...['-chardev', `socket,id=output,path=${outputSocket}`],
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
