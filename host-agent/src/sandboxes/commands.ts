// The commands of a sandbox by id, as other modules use them.
import { type ExecRequest, MAX_WAITING_REQUESTS } from '@sandboxd/api';
import type { CommandInfo } from '../guest/command-info.ts';
import type { GuestCommands } from '../guest/commands.ts';
import { ConcurrencyLimit } from '../lib/concurrency-limit.ts';
import { newId } from '../lib/ids.ts';
import type { SandboxUse } from './idle/sandbox-use.ts';
import { environmentOf } from './metadata.ts';
import type { SandboxRecord } from './record.ts';
import type { RunningVm } from './running-vm.ts';

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

export type CommandWatchers = {
  readonly uses: SandboxUse;
  /** Requests that wait. Without a limit they would take all calls that the guest serves at once. */
  readonly readers: ConcurrencyLimit;
};

/** One of a sandbox. */
export function createReaderLimit(): ConcurrencyLimit {
  const max = MAX_WAITING_REQUESTS;
  return new ConcurrencyLimit({ what: 'requests of the sandbox that wait', max, maxPerClient: max });
}

export function createSandboxCommands(
  { guest: { commands }, captures }: Pick<RunningVm, 'guest' | 'captures'>,
  record: SandboxRecord,
  { uses, readers }: CommandWatchers,
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
    wait: async (id, signal) => {
      using _reader = readers.acquire(undefined);
      return await using(commands.wait(id, signal));
    },
    kill: (id, graceMs, signal) => using(commands.kill(id, graceMs, signal)),
    write: (...call) => using(commands.write(...call)),
    start: async (request) => {
      const info = await commands.start(request, newId('cmd'), baseEnv);
      await captures?.commands.started(info, request.cmd);
      return info;
    },
    attach: (id, request, events) => {
      const reader = readers.acquire(undefined);
      // Reading alone is no use of the sandbox.
      const endUse = request.input === 'none' ? undefined : uses.beginUse();
      const end = (): void => {
        reader[Symbol.dispose]();
        endUse?.();
      };
      try {
        const stream = commands.attach(id, request, {
          ...events,
          end: (ended) => {
            end();
            events.end(ended);
          },
          failed: (error) => {
            end();
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
            end();
            stream.cancel();
          },
        };
      } catch (error) {
        end();
        throw error;
      }
    },
  };
}
