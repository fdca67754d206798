// The guest agent: the first process of every sandbox.
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';
import {
  ATTRIBUTES,
  CLOCK,
  COMMANDS,
  FREEZE,
  GuestConnection,
  NETWORK,
  PORTS,
  SLEEP,
  TRUST,
  WATCH,
} from '@sandboxd/proto';
import { mountModules } from './boot/modules.ts';
import { mountFileSystems } from './boot/mounts.ts';
import { setUpSystem } from './boot/system.ts';
import { serveRequest } from './calls.ts';
import { serveChannels } from './channel/serve.ts';
import { CommandTable } from './commands/table.ts';
import { ExecCgroups, readGuestSize } from './exec/cgroups.ts';
import { Freezer } from './exec/freezer.ts';
import { WatchBudget } from './files/watch/budget.ts';
import { hasKernelParameter, readHasDiskErrors, readIsEmulated } from './lib/kernel-parameters.ts';
import { logError } from './lib/log.ts';
import { MemoryTrim } from './machine/memory-trim.ts';
import { addon, NO_DIRECTORY } from './native/addon.ts';
import { Poller } from './native/poller.ts';
import { PortBudget } from './ports/connect.ts';
import { Reaper } from './reap/reaper.ts';
import { createLauncher } from './service/process.ts';
import { Supervisor } from './service/supervisor.ts';

const AGENT_VERSION = '0.1.0';
/** Kernel command-line parameter that the host agent writes; init.c reads the same parameter. */
const BARE = 'sandbox.bare';

/** Microseconds since the kernel started. */
function bootClockUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

const agentStartUs = bootClockUs();
let agentReadyUs = 0;

// The name that `ps` shows.
process.title = 'sandbox-agent';

// PID 1 must never exit: after an unexpected error, the agent keeps serving other requests.
process.on('uncaughtException', (error) => logError('uncaught', error));
process.on('unhandledRejection', (reason) => logError('unhandled', reason));

mountFileSystems();
// A generic template gets its modules later, together with its root.
if (!hasKernelParameter(BARE)) mountModules();
setUpSystem();

const isEmulated = readIsEmulated();
// Restored copies are a third slower with the optimizing compiler (docs/measurements/bulk-bytes.md), and the mid-tier
// compiler would compile the same functions again in each copy (docs/measurements/idle-copy.md). These are not start
// options, because with different start options V8 rejects Node's precompiled code.
if (isEmulated) setFlagsFromString('--no-opt --no-maglev');

const poller = new Poller((error) => logError('event', error));
poller.start();
const cgroups = new ExecCgroups();
cgroups.start();
cgroups.restock();
const reaper = new Reaper({ poller, onOrphan: (path, usage) => cgroups.credit(path, usage) });
reaper.start();

const freezer = new Freezer(cgroups);
const trim = new MemoryTrim();
const launcher = createLauncher({ poller, reaper, cgroups });
const service = new Supervisor(launcher, (work) => freezer.whenThawed(work));
const commands = new CommandTable(readGuestSize().memoryBytes);

const bootId = addon.readText(NO_DIRECTORY, '/proc/sys/kernel/random/boot_id').trim();
const connection: GuestConnection = new GuestConnection({
  describe: () => ({
    agentVersion: AGENT_VERSION,
    bootId,
    agentStartUs,
    agentReadyUs,
    capabilities: [
      CLOCK,
      NETWORK,
      COMMANDS,
      SLEEP,
      WATCH,
      PORTS,
      TRUST,
      ATTRIBUTES,
      ...(cgroups.canFreeze ? [FREEZE] : []),
    ],
  }),
  onHello: ({ incarnation }) => {
    freezer.greeted(incarnation);
    trim.check();
  },
  onRequest: (stream, request) => {
    trim.touch();
    serveRequest(context, stream, request);
  },
  onMalformed: (cause) => logError('channel', cause),
  onFault: (cause) => logError('stream', cause),
});
const context = {
  poller,
  reaper,
  cgroups,
  freezer,
  commands,
  service,
  trim,
  watches: new WatchBudget(),
  ports: new PortBudget(),
  isEmulated,
  writesDirect: isEmulated || readHasDiskErrors(),
  incarnation: () => connection.incarnation,
  streamCount: () => connection.channel?.streamCount ?? 0,
};
serveChannels({ poller, connection, isEmulated }, () => {
  agentReadyUs = bootClockUs();
});
