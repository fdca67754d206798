// Dispatches each request to its handler.
import {
  AgentError,
  type CommandAttach,
  type CommandCall,
  type DirPull,
  type Exec,
  type FileCall,
  type FilePull,
  type FilePush,
  type FileRead,
  type FileWatch,
  type FileWrite,
  type Freeze,
  type Identity,
  type PortConnect,
  type Request,
  type ResultInput,
  type ServiceConfigure,
  type ServiceControl,
  type ServiceOutput,
  type SetClock,
  type Stream,
  type Trust,
  type Wake,
} from '@sandboxd/proto';
import { attachCommand, callCommand, listCommands } from './commands/calls.ts';
import { type ExecContext, startExec } from './exec/session.ts';
import { startFileCall } from './files/calls.ts';
import { startDirectoryPull } from './files/directory-pull.ts';
import { startFileRead, startPull } from './files/pull.ts';
import { startPush } from './files/push.ts';
import type { WatchBudget } from './files/watch/budget.ts';
import { startFileWatch } from './files/watch/watch.ts';
import { startFileWrite } from './files/write.ts';
import { logError } from './lib/log.ts';
import { growDisk } from './machine/grow-disk.ts';
import { applyIdentity, correctClock, wakeUp } from './machine/identity.ts';
import type { MemoryTrim } from './machine/memory-trim.ts';
import { readStats } from './machine/stats.ts';
import { applyTrust, rehearseTrust } from './machine/trust/index.ts';
import { addon } from './native/addon.ts';
import { type PortBudget, startPortConnect } from './ports/connect.ts';
import { configureService, controlService, streamOutput } from './service/calls.ts';
import type { Supervisor } from './service/supervisor.ts';

export type CallContext = ExecContext & {
  readonly service: Supervisor;
  readonly trim: Pick<MemoryTrim, 'resetBaseline'>;
  readonly streamCount: () => number;
  readonly isEmulated: boolean;
  readonly watches: WatchBudget;
  readonly ports: PortBudget;
  /** Large files that are pushed bypass the page cache. */
  readonly writesDirect: boolean;
  /** Incarnation of the host process that sent the call. */
  readonly incarnation: () => string | undefined;
};

/** Serves one request. Its stream always gets a result. */
export function serveRequest(context: CallContext, stream: Stream, request: Request): void {
  try {
    dispatch(context, stream, request);
  } catch (error) {
    stream.finish(toErrorResult(error));
  }
}

function dispatch(context: CallContext, stream: Stream, request: Request): void {
  if (request.exec) {
    startExec(context, stream, request.exec as Exec);
  } else if (request.commandList) {
    stream.finish(listCommands(context.commands));
  } else if (request.commandCall) {
    callCommand(context.commands, stream, request.commandCall as CommandCall);
  } else if (request.commandAttach) {
    attachCommand(context.commands, stream, request.commandAttach as CommandAttach);
  } else if (request.identity) {
    const identity = request.identity as Identity;
    const applied = applyIdentity(identity);
    context.cgroups.limitPids(identity.pidsLimit);
    // The last step: from here on, everything that runs belongs to the new guest.
    context.freezer.thaw();
    context.trim.resetBaseline();
    stream.finish({ identity: applied });
  } else if (request.wake) {
    const applied = wakeUp(request.wake as Wake);
    context.freezer.thaw();
    context.trim.resetBaseline();
    stream.finish({ wake: applied });
  } else if (request.freeze) {
    freeze(context, stream, request.freeze as Freeze);
  } else if (request.stats) {
    stream.finish({
      stats: readStats({ execCgroups: context.cgroups.count, streams: context.streamCount() }),
    });
  } else if (request.growDisk) {
    stream.finish({ growDisk: { sizeBytes: growDisk() } });
  } else if (request.setClock) {
    stream.finish({ setClock: { unixTimeUs: correctClock(request.setClock as SetClock) } });
  } else if (request.serviceConfigure) {
    configureService(context.service, stream, request.serviceConfigure as ServiceConfigure);
  } else if (request.serviceControl) {
    controlService(context.service, stream, request.serviceControl as ServiceControl);
  } else if (request.serviceOutput) {
    streamOutput(context.service, stream, request.serviceOutput as ServiceOutput);
  } else if (request.filePush) {
    startPush(stream, request.filePush as FilePush, context.writesDirect);
  } else if (request.filePull) {
    startPull(stream, request.filePull as FilePull, context.isEmulated);
  } else if (request.dirPull) {
    startDirectoryPull(stream, request.dirPull as DirPull);
  } else if (request.fileCall) {
    startFileCall(stream, request.fileCall as FileCall);
  } else if (request.fileRead) {
    startFileRead(stream, request.fileRead as FileRead, context.isEmulated);
  } else if (request.fileWrite) {
    startFileWrite(stream, request.fileWrite as FileWrite);
  } else if (request.fileWatch) {
    startFileWatch(context, stream, request.fileWatch as FileWatch);
  } else if (request.portConnect) {
    startPortConnect(context, stream, request.portConnect as PortConnect);
  } else if (request.trust) {
    const trust = request.trust as Trust;
    if (trust.isRehearsal) rehearseTrust();
    stream.finish({ trust: trust.isRehearsal ? {} : applyTrust(trust, { isThorough: true }) });
  } else {
    throw new AgentError('unsupported', 'this agent does not know the request; bake the profile again');
  }
}

function freeze({ freezer, incarnation }: CallContext, stream: Stream, { isFrozen, sync }: Freeze): void {
  const answer = (): void => {
    if (isFrozen && sync) addon.sync();
    stream.finish({ freeze: {} });
  };
  if (isFrozen) {
    freezer.freeze(incarnation(), answer);
    return;
  }
  freezer.thaw();
  if (sync) void addon.syncInBackground().then(answer);
  else answer();
}

function toErrorResult(error: unknown): ResultInput {
  if (error instanceof AgentError) return { error: { code: error.code, message: error.message } };
  logError('request', error);
  return { error: { code: 'internal', message: error instanceof Error ? error.message : String(error) } };
}
