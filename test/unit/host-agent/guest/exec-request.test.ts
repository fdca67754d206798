// The translation of an exec request from the API's format to the agent protocol's.
import type { ExecRequest } from '@sandboxd/api';
import type { Exec, Request } from '@sandboxd/proto';
import t from 'tap';
import { type ExecOptions, startExec } from '../../../../host-agent/src/guest/exec.ts';
import { settle } from '../../../support/memory-link.ts';
import { channelPair } from '../../proto/support/channel-pair.ts';

async function sent(request: Partial<ExecRequest>, options?: ExecOptions): Promise<Exec> {
  const requests: Request[] = [];
  const pair = channelPair((_stream, request) => void requests.push(request));
  const events = { output: () => undefined, exit: () => undefined };
  startExec(pair.host, { cmd: ['x'], env: {}, timeout_s: 0, ...request }, events, options);
  await settle(pair.links);
  return requests[0]!.exec as Exec;
}

t.test('what is absent is empty', async (t) => {
  t.match(await sent({}), { cmd: ['x'], env: [], cwd: '', user: '', timeoutMs: 0, stdin: false });
  const tty = { cols: 80, rows: 24 };
  t.match(await sent({ cwd: '/x', user: 'a:b', tty }, { hasStdin: true }), {
    cwd: '/x',
    user: 'a:b',
    tty,
    stdin: true,
  });
});

t.test('a time limit is in milliseconds, and none when it is too long to count', async (t) => {
  for (const [timeout_s, timeoutMs] of [
    [2, 2000],
    [2 ** 40, 2 ** 40 * 1000],
    [2 ** 40 + 1, 0],
    [Number.MAX_SAFE_INTEGER, 0],
    [0, 0],
    [-5000, 0],
  ] as const)
    t.equal((await sent({ timeout_s })).timeoutMs, timeoutMs, `${timeout_s}`);
});

t.test('its variables win over those of the root filesystem, whatever they are called', async (t) => {
  const env = JSON.parse('{"B":"2","__proto__":"3"}');
  const { env: joined } = await sent({ env }, { baseEnv: { A: '1', B: '1' } });
  t.same(joined, ['A=1', 'B=2', '__proto__=3']);
});
