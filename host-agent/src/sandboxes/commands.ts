// The commands of a sandbox by id, as other modules use them.
import type { ExecRequest } from '@sandboxd/api';
import type { CommandInfo } from '../guest/command-types.ts';
import type { GuestCommands } from '../guest/commands.ts';
import type { Guest } from '../guest/guest.ts';
import { newId } from '../lib/ids.ts';
import type { CommandLogs } from './command-logs.ts';
import type { SandboxUse } from './idle/sandbox-use.ts';
import { environmentOf } from './metadata.ts';
import type { SandboxRecord } from './record.ts';

/** Errors as in GuestCommands. */
export interface SandboxCommands
  extends Pick<GuestCommands, 'list' | 'get' | 'signal' | 'resize' | 'wait' | 'kill' | 'write'> {
  /** Starts a detached command under a new id. */
  start(request: ExecRequest): Promise<CommandInfo>;
  attach(
    ...call: Parameters<GuestCommands['attach']>
  ): Pick<ReturnType<GuestCommands['attach']>, AttachedCall>;
}

type AttachedCall = 'consumed' | 'write' | 'closeStdin' | 'signal' | 'resize' | 'cancel';

export function createSandboxCommands(
  {
    guest: { commands },
    record,
  }: { readonly guest: Pick<Guest, 'commands'>; readonly record: SandboxRecord },
  logs: CommandLogs | undefined,
  uses: SandboxUse,
): SandboxCommands {
  const baseEnv = environmentOf(record);
  /** A request that waits is a use until its end. */
  const using = async <T>(work: Promise<T>): Promise<T> => {
    return await work.finally(uses.beginUse());
  };
  return {
    list: (signal) => commands.list(signal),
    get: (id, signal) => commands.get(id, signal),
    signal: (id, name) => commands.signal(id, name),
    resize: (id, size) => commands.resize(id, size),
    wait: (id, signal) => using(commands.wait(id, signal)),
    kill: (id, graceMs, signal) => using(commands.kill(id, graceMs, signal)),
    write: (...call) => using(commands.write(...call)),
    start: async (request) => {
      const info = await commands.start(request, newId('cmd'), baseEnv);
      logs?.started(info, request.cmd);
      return info;
    },
    attach: (id, request, events) => {
      // Reading alone is no use of the sandbox.
      const end = request.input === 'none' ? undefined : uses.beginUse();
      try {
        const stream = commands.attach(id, request, {
          ...events,
          end: (ended) => {
            end?.();
            events.end(ended);
          },
          failed: (error) => {
            end?.();
            events.failed(error);
          },
        });
        return {
          consumed: (bytes) => stream.consumed(bytes),
          write: (chunk) => stream.write(chunk),
          closeStdin: () => stream.closeStdin(),
          signal: (name) => stream.signal(name),
          resize: (size) => stream.resize(size),
          cancel: () => {
            end?.();
            stream.cancel();
          },
        };
      } catch (error) {
        end?.();
        throw error;
      }
    },
  };
}
