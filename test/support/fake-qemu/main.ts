// A stand-in for QEMU with its sockets and a guest that answers. A test writes the guest's behaviour and the commands
// to refuse into a file, which is read before every action.
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { FakeGuest } from '../fake-cloud-hypervisor/guest.ts';
import type { QemuKnobs } from './host.ts';

const HOLD_MS = 20;
const readKnobs = (): QemuKnobs =>
  JSON.parse(readFileSync(process.env.FAKE_QEMU_KNOBS ?? '', 'utf8')) as QemuKnobs;
const pathIn = (start: string): string => {
  const found = process.argv.find((arg) => arg.startsWith(start)) ?? '';
  return found.slice(start.length).split(',', 1)[0] ?? '';
};
const consolePath = pathIn('file,id=console,path=');

/** States that the real program leaves only by a reset. */
const ENDED = ['internal-error', 'shutdown'];
let status = readKnobs().firstStatus;
const clients = new Set<Socket>();
const commands: string[] = [];
const say = (message: object): void => {
  for (const client of clients) client.write(`${JSON.stringify(message)}\r\n`);
};
const guest = new FakeGuest(
  { bootId: 'b', hostname: '', clockSteps: 0 },
  {
    powerOff: () => end('shutdown'),
    takeDisks: () => undefined,
  },
);

/** The guest enters a state in which it does not run. */
function end(next: string): void {
  status = next;
  guest.pause();
  const { lastWords, log, reason } = readKnobs();
  appendFileSync(consolePath, lastWords);
  process.stderr.write(log);
  if (reason !== undefined) say({ event: 'BLOCK_IO_ERROR', data: { action: 'stop', reason } });
  say({ event: 'STOP', data: {} });
}

function saveState(path: string): void {
  const { saved } = readKnobs();
  rmSync(path, { recursive: true, force: true });
  if (saved === 'link') symlinkSync('/etc/hostname', path);
  else if (saved === 'pipe') execFileSync('mkfifo', [path]);
  else if (saved === 'directory') mkdirSync(path);
  else if (saved !== 'nothing') writeFileSync(path, saved === 'no-bytes' ? '' : 'state');
  if (saved === 'endless') truncateSync(path, 2 ** 40);
}

function perform(command: string, args: Readonly<Record<string, string>>): object {
  switch (command) {
    case 'query-status':
      return { status, running: status === 'running' };
    case 'stop':
      if (status === 'running') {
        status = 'paused';
        guest.pause();
        say({ event: 'STOP', data: {} });
      }
      return {};
    case 'cont':
      if (ENDED.includes(status)) throw new Error('Resetting the Virtual Machine is required');
      status = 'running';
      guest.resume();
      say({ event: 'RESUME', data: {} });
      return {};
    case 'xen-save-devices-state':
      saveState(args.filename ?? '');
      return {};
    default:
      return {};
  }
}

/** Executes one command after another, as the real program does. */
async function answer(line: string): Promise<void> {
  const { execute, arguments: args, id } = JSON.parse(line);
  commands.push(execute);
  writeFileSync(join(dirname(consolePath), 'commands'), commands.join('\n'));
  while (readKnobs().held.includes(execute)) await new Promise((resolve) => setTimeout(resolve, HOLD_MS));
  try {
    const refusal = readKnobs().refused[execute];
    if (refusal !== undefined) throw new Error(refusal);
    say({ return: perform(execute, args), id });
  } catch (error) {
    say({ error: { class: 'GenericError', desc: (error as Error).message }, id });
  }
}

createServer((socket) => {
  clients.add(socket);
  socket.on('close', () => clients.delete(socket)).on('error', () => undefined);
  let last = Promise.resolve();
  createInterface({ input: socket }).on('line', (line) => {
    last = last.then(() => answer(line));
  });
  socket.write('{"QMP": {"version": {}, "capabilities": []}}\r\n');
}).listen(pathIn('unix:'));
createServer((socket) => {
  if (readKnobs().isGuestDeaf) socket.resume();
  else guest.accept(socket);
}).listen(pathIn('socket,id=agent,path='));
process.on('SIGUSR1', () => end(readKnobs().endsIn));
