// Commands of a sandbox that is no guest: one, which has ended.
import type { SandboxCommands } from '../../host-agent/src/sandboxes/commands.ts';

export function fakeCommands(): Partial<SandboxCommands> {
  const info = (id: string) => ({
    ...{ id, cmd: ['true'], isCmdCut: false, isDetached: true, hasStdin: false, pid: 7 },
    ...{ startedUnixMs: 1000, endedUnixMs: 2000, outcome: { exitCode: 0, durationMs: 1 } },
  });
  const answer = async (id: string) => info(id);
  return {
    list: async () => [info('cmd_0123456789abc')],
    get: answer,
    wait: answer,
    kill: answer,
    signal: answer,
    resize: answer,
    write: answer,
    start: async () => info('cmd_0123456789abc'),
    attach: (id, _request, events) => {
      queueMicrotask(() => events.end({ nextSeq: 0, info: info(id) }));
      const nothing = (): void => undefined;
      const calls = { consumed: nothing, closeStdin: nothing, signal: nothing, resize: nothing };
      return { ...calls, write: () => true, cancel: nothing };
    },
  };
}
