// What counts as a use of a sandbox, and how its activity counters are read.
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ExecEvents, ExecSession } from '../../guest/exec.ts';
import type { GuestFiles, PulledFile } from '../../guest/files.ts';
import { hasOpenConnection } from '../../network/index.ts';
import type { Directories, ResourceContext } from '../resources/resource.ts';
import type { IdleRule } from '../types.ts';
import { readVmUsage, type UsageSource } from '../vm-usage.ts';
import { type Counters, type IdleSources, IdleWatch } from './idle-watch.ts';
import { SandboxUse } from './sandbox-use.ts';

/** Outside the directories of sandboxes, where their VMMs can write. */
const idleRoot = ({ runDir }: Directories): string => join(runDir, 'idle');
const usesRoot = ({ runDir }: Directories): string => join(runDir, 'used');

export function watchIdle(
  sandbox: UsageSource & { readonly id: string },
  { directories, idle: { readCounters } }: Pick<ResourceContext, 'directories' | 'idle'>,
  { timeoutS }: IdleRule,
  onIdle: (signal: AbortSignal) => Promise<void>,
): IdleWatch {
  const { id, record } = sandbox;
  return new IdleWatch({
    idleMs: timeoutS * 1000,
    path: join(idleRoot(directories), id),
    read: () => readCounters(sandbox),
    hasConnection: async () => record.network !== undefined && hasOpenConnection(record.network.guestIp),
    onIdle,
  });
}

export function createUse(id: string, directories: Directories, createdAtMs: number): SandboxUse {
  return new SandboxUse(join(usesRoot(directories), id), createdAtMs);
}

/** Removes stored idle states and uses of sandboxes that no longer exist. */
export async function forgetIdle(directories: Directories, known: ReadonlySet<string>): Promise<void> {
  for (const root of [idleRoot(directories), usesRoot(directories)]) {
    const names = await readdir(root).catch(() => []);
    await Promise.all(names.filter((name) => !known.has(name)).map((name) => rm(join(root, name))));
  }
}

function toCounters(sandbox: UsageSource): Counters | undefined {
  const usage = readVmUsage(sandbox);
  if (usage === undefined) return undefined;
  const { receivedBytes = 0, sentBytes = 0 } = usage.network ?? {};
  return { cpuMs: usage.cpuMs, networkBytes: receivedBytes + sentBytes };
}

export const HOST_IDLE: IdleSources = { readCounters: toCounters };

/** A command is a use until it has exited. */
export function trackExecUse(
  uses: Pick<SandboxUse, 'beginUse'>,
  events: ExecEvents,
  run: (events: ExecEvents) => ExecSession,
): ExecSession {
  const end = uses.beginUse();
  try {
    return run({
      started: (pid) => events.started?.(pid),
      output: (stream, chunk) => events.output(stream, chunk),
      exit: (outcome) => {
        end();
        events.exit(outcome);
      },
      drain: () => events.drain?.(),
    });
  } catch (error) {
    end();
    throw error;
  }
}

/** A transfer is a use until its last byte, or until it is cancelled. */
export function trackTransferUse(uses: Pick<SandboxUse, 'beginUse'>, files: GuestFiles): GuestFiles {
  const pull = async <T extends PulledFile>(start: () => Promise<T>): Promise<T> => {
    const end = uses.beginUse();
    try {
      const pulled = await start();
      return { ...pulled, body: trackBody(pulled.body, end) };
    } catch (error) {
      end();
      throw error;
    }
  };
  const during = <T>(work: () => Promise<T>): Promise<T> => {
    const end = uses.beginUse();
    return work().finally(end);
  };
  return {
    pushFiles: (...push) => during(() => files.pushFiles(...push)),
    pullFile: (path, maxBytes, signal) => pull(() => files.pullFile(path, maxBytes, signal)),
    pullDirectory: (path, signal) => pull(() => files.pullDirectory(path, signal)),
    read: (read, signal) => pull(() => files.read(read, signal)),
    call: (call, signal) => during(() => files.call(call, signal)),
    write: (write, read, signal) => during(() => files.write(write, read, signal)),
    // Looking on is no use of the sandbox.
    watch: (watch, events) => files.watch(watch, events),
  };
}

function trackBody(body: PulledFile['body'], end: () => void): PulledFile['body'] {
  return {
    next: async () => {
      try {
        const chunk = await body.next();
        if (chunk === undefined) end();
        return chunk;
      } catch (error) {
        end();
        throw error;
      }
    },
    cancel: () => {
      end();
      body.cancel();
    },
    ...(body.keepalive && { keepalive: () => body.keepalive?.() }),
  };
}
