// The commands of a sandbox as the routes use them: what waits has a limit, and counts as a use.
import t from 'tap';
import type { CommandEvents } from '../../../../host-agent/src/guest/command-stream.ts';
import { createReaderLimit, createSandboxCommands } from '../../../../host-agent/src/sandboxes/commands.ts';

t.test('requests that wait have a limit, and each gives its place back once', async (t) => {
  const attached: CommandEvents[] = [];
  const guest = {
    commands: {
      wait: (_id: string, signal?: AbortSignal) =>
        new Promise((_resolve, reject) =>
          signal?.addEventListener('abort', () => reject(signal.reason), { once: true }),
        ),
      attach: (id: string, _request: object, events: CommandEvents) => {
        if (id === 'gone') throw new Error('gone');
        attached.push(events);
        return { cancel: () => undefined };
      },
    },
  };
  const readers = createReaderLimit();
  let uses = 0;
  const idle = {
    beginUse: () => {
      uses += 1;
      return () => void uses--;
    },
  };
  const record = { options: { rootfs: { kind: 'profile', env: {} } } } as never;
  const running = { guest, captures: undefined } as never;
  const commands = () => createSandboxCommands(running, record, { uses: idle as never, readers });
  const request = { fromSeq: 0, isFollowing: true, input: 'write' } as const;
  const events = { records: () => undefined, end: () => undefined, failed: () => undefined };
  const leave = new AbortController();
  const waits = Array.from({ length: 1020 }, () => commands().wait('x', leave.signal));
  t.throws(() => commands().attach('gone', request, events), { message: 'gone' });
  const all = Array.from({ length: 4 }, () => commands().attach('x', request, events));
  const refused = { code: 'exhausted' };
  await t.rejects(commands().wait('x'), refused);
  t.throws(() => commands().attach('x', request, events), refused);
  t.equal(uses, 1024);
  all[0]?.cancel();
  attached[1]?.failed(new Error('lost') as never);
  attached[2]?.end({} as never);
  leave.abort(new Error('left'));
  await Promise.all(waits.map((wait) => t.rejects(wait, { message: 'left' })));
  t.equal(readers.count, 1);
  t.equal(uses, 1, 'the one that is still attached');
});
