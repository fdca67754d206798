// Runs inside a guest until it is killed: the agent's own modules on a vsock port. Each line of output is an error.
import { writeFileSync } from 'node:fs';
import { GuestConnection } from '@sandboxd/proto';
import { serveRequest } from '../../guest-agent/src/calls.ts';
import { serveVsock } from '../../guest-agent/src/channel/serve.ts';
import { CommandTable } from '../../guest-agent/src/commands/table.ts';
import { ExecCgroups } from '../../guest-agent/src/exec/cgroups.ts';
import { Freezer } from '../../guest-agent/src/exec/freezer.ts';
import { WatchBudget } from '../../guest-agent/src/files/watch/budget.ts';
import { MemoryTrim } from '../../guest-agent/src/machine/memory-trim.ts';
import { Poller } from '../../guest-agent/src/native/poller.ts';
import { PortBudget } from '../../guest-agent/src/ports/connect.ts';
import { Reaper } from '../../guest-agent/src/reap/reaper.ts';
import { createLauncher } from '../../guest-agent/src/service/process.ts';
import { Supervisor } from '../../guest-agent/src/service/supervisor.ts';
import { HOST_CID, LOCAL_CID, PORT, STRICT_PORT } from './vsock-ports.ts';

const [pidPath = ''] = process.argv.slice(2);
const report = (cause: unknown): void => void process.stdout.write(`${String(cause)}\n`);
const poller = new Poller(report);
poller.start();
const cgroups = new ExecCgroups();
const freezer = new Freezer(cgroups);
const reaper = new Reaper({ poller, onOrphan: () => undefined });
reaper.start();
const service = new Supervisor(createLauncher({ poller, reaper, cgroups }));
const commands = new CommandTable(2 ** 29);
const connection: GuestConnection = new GuestConnection({
  describe: () => ({
    agentVersion: 'test',
    bootId: 'one',
    agentStartUs: 1,
    agentReadyUs: 2,
    capabilities: [],
  }),
  onRequest: (stream, request) =>
    serveRequest(
      {
        poller,
        reaper,
        cgroups,
        freezer,
        commands,
        trim: new MemoryTrim(),
        service,
        watches: new WatchBudget(),
        ports: new PortBudget(),
        isEmulated: false,
        writesDirect: false,
        incarnation: () => connection.incarnation,
        streamCount: () => 0,
      },
      stream,
      request,
    ),
  onMalformed: report,
  onFault: report,
});
const context = { poller, connection, isEmulated: false };
/** Makes a file, as a mark that a host has connected to `port`. */
const onHostOf = (port: number) => () => writeFileSync(`${pidPath}.${port}`, '');
serveVsock(context, { port: PORT, peerCid: LOCAL_CID, onHost: onHostOf(PORT) });
serveVsock(context, { port: STRICT_PORT, peerCid: HOST_CID, onHost: onHostOf(STRICT_PORT) });
writeFileSync(pidPath, String(process.pid));
