// A guest is saved once it is idle.
import t from 'tap';
import type { Sandbox } from '../../../../host-agent/src/sandboxes/sandbox.ts';
import { settle, warm } from '../../../../host-agent/src/sandboxes/warm.ts';

const { signal } = new AbortController();

t.test('a busy guest is waited for, and an idle one is not waited for any longer', async (t) => {
  let looks = 0;
  const work = [0, 100, 200, 300, 305, 310, 315, 320];
  await settle(() => work[Math.min(looks++, work.length - 1)], signal);
  t.equal(looks, work.length);
});

t.test('one short rest does not count as idle', async (t) => {
  let looks = 0;
  const work = [0, 100, 100, 100, 200, 200, 200, 200, 200];
  await settle(() => work[Math.min(looks++, work.length - 1)], signal);
  t.equal(looks, work.length);
});

t.test('a VMM that is gone is not waited for, and a wait ends with its signal', async (t) => {
  await settle(() => undefined, signal);
  const cause = new Error('stopped');
  let cpuMs = 0;
  await t.rejects(
    settle(() => (cpuMs += 100), AbortSignal.abort(cause)),
    { cause },
  );
});

t.test('a guest is sampled up to a limit', async (t) => {
  let looks = 0;
  const waits: unknown[] = [];
  const sleep = (async (ms: number) => waits.push(ms)) as unknown as Parameters<typeof settle>[2];
  await settle(() => 100 * looks++, signal, sleep);
  t.equal(looks, 81);
  t.same(new Set(waits), new Set([250]));
  looks = 0;
  await settle(() => (looks++ === 0 ? 50 : undefined), signal, sleep);
  t.equal(looks, 5, 'what cannot be read any more does nothing');
  looks = 0;
  await settle(() => (looks++ === 0 ? undefined : 9), signal, sleep);
  t.equal(looks, 5);
});

/** The commands that a guest runs before it is saved. */
async function warmed(hasRoot: boolean, { stays = 0, services = 0 } = {}) {
  const requests: string[] = [];
  let looks = 0;
  const guest = {
    reconnect: async (name: string) => void requests.push(`connect ${name}`),
    setIdentity: async ({ sandboxId }: { sandboxId: string }) => void requests.push(`identity ${sandboxId}`),
    trust: async (trust: unknown) => {
      requests.push(`trust ${JSON.stringify(trust)}`);
      return [];
    },
    stats: async () => ({ execCgroups: services + (looks++ > 0 ? stays : 0) }),
    exec: (
      { cmd, tty, timeout_s }: { cmd: string[]; tty?: { cols: number; rows: number }; timeout_s: number },
      events: { output(stream: string, chunk: Buffer): void; exit(): void },
      { hasStdin }: { hasStdin: boolean },
    ) => {
      const words = [cmd.join(' ').replace(/.*ld-linux/, 'ld-linux'), `${timeout_s} s`];
      if (tty !== undefined) words.push(`on ${tty.cols}x${tty.rows}`);
      if (hasStdin) words.push('with input');
      requests.push(words.join(', '));
      setImmediate(() => {
        events.output('stdout', Buffer.from('help'));
        events.exit();
      });
      return {
        consumed: (bytes: number) => requests.push(`consumed ${bytes}`),
        write: (bytes: Buffer) => requests.push(`wrote ${JSON.stringify(`${bytes}`)}`),
        closeStdin: () => requests.push('closed'),
      };
    },
  };
  const vm = { identity: { pid: 2 ** 23, startTicks: 0 } };
  const sandbox = { id: 'sbx_1', awake: { guest, vm }, record: {} } as unknown as Sandbox;
  await warm(sandbox, { timeoutMs: 60_000, hasRoot, signal });
  return requests;
}

t.test('a guest runs what its copies will run, twice', async (t) => {
  const one = ['ld-linux-x86-64.so.2 --help, 60 s', 'consumed 4'];
  const round = (at: number, ...commands: string[]) => [
    ...[`connect warm-${at}`, 'identity sbx_1', 'trust {"isRehearsal":true}'],
    ...commands,
  ];
  const ofRoot = ['true, 60 s', 'consumed 4', 'sh -c true | true, 60 s', 'consumed 4'];
  const kinds = [
    `${one[0]}, with input`,
    'wrote "\\n"',
    'closed',
    'consumed 4',
    `${one[0]}, on 80x24`,
    'consumed 4',
  ];
  for (const hasRoot of [false, true]) {
    const all = [...one, ...(hasRoot ? ofRoot : []), ...kinds];
    t.same(await warmed(hasRoot), [...round(0, ...all), ...round(1, ...all)]);
    for (const services of [0, 1])
      await t.rejects(warmed(hasRoot, { stays: 1, services }), {
        code: 'internal',
        message: /processes stayed/,
      });
    t.ok(await warmed(hasRoot, { services: 1 }), 'the service of the profile runs already');
  }
});
