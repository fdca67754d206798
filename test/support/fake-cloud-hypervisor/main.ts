// A stand-in for the real VMM: a process with the same command line, sockets, files and responses, and with faults on
// demand. It runs no guest; an agent in this process plays the guest.
import { constants, existsSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { EventLog } from './events.ts';
import { type FakeAnswer, type FakeRequest, serveHttp } from './http-server.ts';
import { dieNow, readKnobs, takeFault } from './knobs.ts';
import { FakeMachine } from './machine.ts';
import { Refusal } from './refusal.ts';
import { disk, net, resizeDisk, restoreConfig, snapshotConfig, vmConfig } from './schema.ts';
import type { FakeConfig } from './snapshot.ts';

const RELEASES = { '52': 'v52.0', '53': 'v53.0', next: 'v54.0' } as const;
const OPTIONS = ['--api-socket', '--event-monitor', '--seccomp', '--log-file'];

if (process.argv.includes('--version')) {
  console.log(`cloud-hypervisor ${RELEASES[readKnobs().version]}\nMigration Protocol Versions: 0`);
  process.exit(0);
}

process.umask(0o077);
const options = readOptions();
const apiPath = options.get('--api-socket') ?? '';
const spawnFault = takeFault('spawn');
if (spawnFault?.kind === 'die') {
  process.stderr.write('Error creating hypervisor instance: No such file or directory (os error 2)\n');
  process.exit(1);
}
if (spawnFault?.kind === 'hang') {
  setInterval(() => undefined, 1000);
} else {
  start();
}

function start(): void {
  const eventsFd = openSync(
    options.get('--event-monitor') ?? '',
    constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC,
    0o600,
  );
  const events = new EventLog(eventsFd);
  events.add('vmm', 'starting');
  const exit = (code: number): void => {
    events.add('vmm', 'shutdown', true);
    // The lock file remains, also after a graceful exit.
    rmSync(apiPath, { force: true });
    process.exit(code);
  };
  const machine = new FakeMachine(events, exit);
  writeFileSync(`${apiPath}.lock`, '');
  if (existsSync(apiPath)) rmSync(apiPath);
  serveHttp((request) => answer(machine, exit, request)).listen(apiPath);
  const end = (): void => {
    machine.delete();
    exit(0);
  };
  process.on('SIGTERM', end).on('SIGINT', end);
  // A VMM under the guest's control can overwrite its own arguments.
  process.on('SIGHUP', () => {
    process.title = 'cron';
  });
  // Actions of the guest, on a test's signal.
  process.on('SIGUSR1', () => void machine.reset(''));
  process.on('SIGUSR2', () => {
    if (readKnobs().hasPvpanic) machine.panic();
    else void machine.reset('[   9.1] Kernel panic - not syncing: Attempted to kill init!\n');
  });
}

async function answer(
  machine: FakeMachine,
  exit: (code: number) => void,
  { method, path, body }: FakeRequest,
): Promise<FakeAnswer> {
  const endpoint = /^\/api\/v1\/(.+)$/.exec(path)?.[1] ?? '';
  const latencyMs = readKnobs().latencyMs[endpoint] ?? 0;
  if (latencyMs > 0) await new Promise((resolve) => setTimeout(resolve, latencyMs));
  const fault = takeFault(endpoint, body);
  if (fault?.kind === 'die') dieNow();
  if (fault?.kind === 'hang') await new Promise(() => undefined);
  if (fault?.kind === 'empty') return { status: 400, body: '' };
  if (fault?.kind === 'raw')
    return {
      status: 400,
      body: '{ "error": "Invalid header.\nAll previous unanswered requests will be dropped." }',
    };
  let result: FakeAnswer;
  try {
    if (fault?.kind === 'refuse')
      throw new Refusal(fault.status ?? 500, fault.reasons ?? ['Error from API', 'a fault of the test']);
    result = await perform(
      machine,
      method,
      endpoint,
      body,
      exit,
      /^(?:half|hoard|keep)$/.test(fault?.kind ?? '') ? fault : undefined,
    );
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    result = { status: error.status, body: JSON.stringify(error.reasons) };
  }
  if (fault?.kind === 'die-after') dieNow();
  return fault?.kind === 'drop' ? 'drop' : result;
}

async function perform(
  machine: FakeMachine,
  method: string,
  endpoint: string,
  body: string,
  exit: (code: number) => void,
  fault: ReturnType<typeof takeFault>,
): Promise<FakeAnswer> {
  const done = { status: 204 };
  const json = (value: unknown): FakeAnswer => ({ status: 200, body: JSON.stringify(value) });
  const { version } = readKnobs();
  const request = `${method} ${endpoint}`;
  if (/^(vmm\.ping|vm\.info)$/.test(endpoint) !== (method === 'GET')) return { status: 400, body: '' };
  if (/^GET|vm\.(boot|pause|resume|shutdown|delete)$|vmm\.shutdown$/.test(request) && body !== '')
    throw new Refusal(400, ['Bad Request']);
  switch (endpoint) {
    case 'vmm.ping':
      return json({
        build_version: RELEASES[version],
        version: RELEASES[version].slice(1),
        pid: process.pid,
        features: ['kvm'],
      });
    case 'vm.info':
      return json(machine.info());
    case 'vm.create':
      if (body === '') return { status: 400, body: '' };
      machine.create(parse<FakeConfig>(body, vmConfig));
      return done;
    case 'vm.boot':
      await machine.boot();
      return done;
    case 'vm.pause':
      machine.pause(fault);
      return done;
    case 'vm.resume':
      machine.resume();
      return done;
    case 'vm.snapshot':
      machine.snapshot(parse<{ destination_url: string }>(body, snapshotConfig).destination_url, fault);
      return done;
    case 'vm.restore': {
      type Restore = { source_url: string; memory_restore_mode?: string; resume?: boolean };
      const restore = parse<Restore>(body, restoreConfig(version));
      await machine.restore(
        restore.source_url,
        restore.memory_restore_mode ?? 'Copy',
        restore.resume ?? false,
      );
      return done;
    }
    case 'vm.resize-disk': {
      const { id, desired_size } = parse<{ id: string; desired_size: number }>(body, resizeDisk);
      machine.resizeDisk(id, desired_size);
      return done;
    }
    case 'vm.delete':
      machine.delete();
      return done;
    case 'vm.shutdown':
      machine.shutdown();
      return done;
    case 'vmm.shutdown':
      machine.delete();
      return { status: 200, body: '', isJson: false, afterwards: () => exit(0) };
    case 'vm.add-disk':
    case 'vm.add-net': {
      const isNet = endpoint === 'vm.add-net';
      const added = machine.add(isNet ? 'net' : 'disks', parse<{ id?: string }>(body, isNet ? net : disk));
      return added === undefined ? done : json(added);
    }
    default:
      throw new Refusal(404, ['Not Found']);
  }
}

function parse<T>(body: string, check: (value: unknown, path: string) => void): T {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    throw new Refusal(400, ['Failed to deserialize JSON', 'expected value at line 1 column 1']);
  }
  check(value, '$');
  return value as T;
}

/** Accepts the real VMM's flags; any other flag, or one that belongs to a VM, is an error. */
function readOptions(): Map<string, string> {
  const args = process.argv.slice(2);
  const found = new Map<string, string>();
  for (let at = 0; at < args.length; at += 2) {
    const name = args[at] ?? '';
    if (!OPTIONS.includes(name)) {
      process.stderr.write(`error: unexpected argument '${name}' found\n`);
      process.exit(2);
    }
    const value = args[at + 1] ?? '';
    found.set(name, value.startsWith('path=') ? value.slice(5) : value);
  }
  return found;
}
