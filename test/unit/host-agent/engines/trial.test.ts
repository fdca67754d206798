// Whether guests run on a host, by the console output of a throw-away guest and its fork.
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type {
  BootOptions,
  ColdBootOptions,
  EngineContext,
  RestoreOptions,
  SaveOptions,
  Vm,
  VmPaths,
} from '../../../../host-agent/src/engines/engine.ts';
import type { Jail } from '../../../../host-agent/src/engines/jail/jail.ts';
import { isDirect } from '../../../../host-agent/src/engines/start.ts';
import {
  hashText,
  readCounts,
  type TrialOptions,
  tryGuest,
} from '../../../../host-agent/src/engines/trial.ts';
import { until } from '../../../support/until.ts';

const MIB = 2 ** 20;

/** How far a guest and its fork count, and how they end. */
type Story = {
  readonly first?: readonly number[];
  readonly copy?: readonly number[];
  /** The VMM exits after that. */
  readonly ends?: boolean;
  readonly save?: (options: SaveOptions) => Promise<void>;
};

function setUp(t: Test, { first = [1, 2, 3], copy = [4, 5], ends = false, save }: Story = {}) {
  const scratchDir = mkdtempSync(join(tmpdir(), 'trial-'));
  t.teardown(() => rmSync(scratchDir, { recursive: true, force: true }));
  const booted: ColdBootOptions[] = [];
  const restored: RestoreOptions[] = [];
  const saves: SaveOptions[] = [];
  const killed: string[] = [];
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (text) => void lines.push(JSON.parse(text)) });
  const consolePath = ({ dir }: VmPaths) => join(dir, 'console');
  const nonceOf = ({ spec }: BootOptions) => spec.bootArgs.replace('sandbox.probe=', '');
  const write = (options: BootOptions, counts: readonly number[]): void => {
    const text = counts.map((count) => `sandbox-probe: ${hashText(nonceOf(options))} ${count}.\r\n`);
    appendFileSync(consolePath(options.paths), `SeaBIOS\n${text.join('')}`);
  };
  const vmOf = (name: string): Vm => {
    const exit = ends ? { reason: `the ${name} ended`, exitCode: 0, signal: null } : undefined;
    return {
      exit,
      kill: async () => void killed.push(name),
      diagnose: async () => `diagnosis of the ${name}`,
      save: async (options: SaveOptions) => {
        saves.push(options);
        await options.whilePaused();
        await save?.(options);
        return { memoryPath: 'm', statePath: 's', pausedMs: 1 };
      },
    } as Partial<Vm> as Vm;
  };
  const ways: TrialOptions = {
    context: { kernelPath: '/k', initramfsPath: '/i', scratchDir, log } as EngineContext,
    boot: async (options) => {
      booted.push(options);
      write(options, first);
      return vmOf('guest');
    },
    restore: async (options) => {
      restored.push(options);
      write(options, copy);
      return vmOf('copy');
    },
    consolePath,
  };
  return { ways, booted, restored, saves, killed, lines, scratchDir, write, vmOf };
}

t.test('a guest that counts, and whose copy counts on, runs', async (t) => {
  const seen: unknown[] = [];
  const layer = (dir: string): string => join(dir, '..', 'c', 'layer');
  const { ways, booted, restored, saves, killed, scratchDir, lines } = setUp(t, {
    save: async ({ dir }) => {
      seen.push(['copied', statSync(layer(dir)).size], killed.length);
    },
  });
  const learn = async ({ dir }: VmPaths, limit: AbortSignal): Promise<void> => {
    const { disks } = booted[0]!.spec;
    for (const { path } of disks) seen.push([statSync(path).size, statSync(path).mode & 0o777]);
    for (const name of ['s', 'm', 'c']) seen.push(statSync(join(dir, '..', name)).mode & 0o777);
    seen.push(limit.aborted, saves.length);
  };
  t.equal(await tryGuest({ ...ways, learn }), undefined);
  t.same(seen, [[MIB, 0o600], [MIB, 0o600], 0o700, 0o700, 0o700, false, 0, ['copied', MIB], 0]);
  const [cold, copy] = [booted[0]!, restored[0]!];
  const root = dirname(cold.paths.dir);
  t.equal(dirname(root), scratchDir);
  t.match(cold, {
    spec: {
      vcpus: 1,
      memoryMib: 128,
      kernelPath: '/k',
      initramfsPath: '/i',
      bootArgs: /^sandbox\.probe=[0-9a-f]{16}$/,
    },
    paths: { dir: join(root, 's'), socketDir: join(root, 's') },
    memoryPath: join(root, 'm', 'memory'),
    isTrial: true,
  });
  t.same(cold.spec.disks, [
    { path: join(root, 'root'), isReadOnly: true },
    { path: join(root, 's', 'layer'), isReadOnly: false },
  ]);
  t.same(copy.spec, {
    ...cold.spec,
    disks: [cold.spec.disks[0], { path: join(root, 'c', 'layer'), isReadOnly: false }],
  });
  t.match(copy, {
    saved: { memoryPath: 'm', statePath: 's' },
    paths: { dir: join(root, 'c') },
    isTrial: true,
  });
  t.match(saves, [{ dir: join(root, 'm'), memoryBytes: 128 * MIB, staysPaused: true }]);
  t.ok(killed.filter((name) => name === 'guest').length >= 1 && killed.includes('copy'));
  t.equal(killed[0], 'guest', 'it is gone before its copy comes');
  t.same(readdirSync(scratchDir), [], 'nothing is left');
  t.same(lines, []);
  t.equal(await tryGuest(ways), undefined);
  t.not(booted[1]!.spec.bootArgs, cold.spec.bootArgs, 'none is taken for one before it');
});

t.test('a guest that does not get as far says how far it got', async (t) => {
  for (const [story, reason, dead] of [
    [{ first: [1, 2], ends: true }, 'cannot reach the first program of a guest: the guest ended', 'guest'],
    [{ first: [], ends: true }, 'cannot reach the first program of a guest: the guest ended', 'guest'],
    [{ copy: [4], ends: true }, 'cannot have a restored guest go on: the copy ended', 'copy'],
    [{ copy: [1, 2] }, 'cannot have a restored guest go on: it began again', undefined],
    [{ copy: [3, 4] }, 'cannot have a restored guest go on: it began again', undefined],
    [
      { save: () => Promise.reject(new Error('no room\nregisters')) },
      'cannot save a guest: no room',
      'guest',
    ],
  ] as const) {
    const { ways, lines, scratchDir, killed } = setUp(t, story);
    t.equal(await tryGuest(ways), reason);
    t.same(readdirSync(scratchDir), []);
    t.ok(killed.includes('guest'));
    if (dead !== undefined)
      t.match(lines, [{ msg: 'a probe guest failed', tail: `diagnosis of the ${dead}` }], reason);
  }
  const { ways, lines, killed } = setUp(t);
  const refused = () => Promise.reject(new Error('refused'));
  t.equal(await tryGuest({ ...ways, boot: refused }), 'cannot start a guest: refused');
  t.same(killed, []);
  t.match(lines, [{ msg: 'a probe guest failed', stage: 'start a guest' }]);
  t.equal(await tryGuest({ ...ways, restore: refused }), 'cannot restore a saved guest: refused');
  t.equal(await tryGuest({ ...ways, learn: refused }), 'cannot reach the first program of a guest: refused');
});

t.test('a guest that lives on and counts no further is waited for as long as it may take', async (t) => {
  const { ways, killed, scratchDir } = setUp(t, { copy: [4] });
  const context = { ...ways.context, probeTimeoutMs: 200 };
  t.equal(
    await tryGuest({ ...ways, context }),
    'cannot have a restored guest go on: no sign of life within 200 ms',
  );
  t.same([...new Set(killed)], ['guest', 'copy']);
  t.same(readdirSync(scratchDir), []);
});

t.test('a guest that counts slowly is one that runs', async (t) => {
  const { ways, booted, write } = setUp(t, { first: [1, 2] });
  const trying = tryGuest(ways);
  await until(() => booted.length === 1, 'a guest');
  // Only the counts are evaluated.
  appendFileSync(ways.consolePath(booted[0]!.paths), 'sandbox-probe: 0000000000000000 9.\n');
  write(booted[0]!, [3]);
  t.equal(await trying, undefined);
});

t.test('who gives it up gets the reason, and nothing is left', async (t) => {
  const { ways, booted, lines, killed, scratchDir } = setUp(t, { first: [1] });
  const closing = new AbortController();
  const trying = tryGuest({ ...ways, signal: closing.signal });
  trying.catch(() => undefined);
  await until(() => booted.length === 1, 'a guest');
  t.equal(booted[0]!.signal?.aborted, false);
  closing.abort(new Error('enough'));
  await t.rejects(trying, { message: 'enough' });
  t.equal(booted[0]!.signal?.aborted, true);
  t.same(killed, ['guest']);
  t.same(lines, [], 'that is no failure');
  t.same(readdirSync(scratchDir), []);
  await t.rejects(tryGuest({ ...ways, signal: closing.signal }), { message: 'enough' });
  t.equal(booted.length, 1, 'nothing is begun');
});

t.test('nothing waits on when it is over', async (t) => {
  const count = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const { ways } = setUp(t);
  const before = count();
  t.equal(await tryGuest(ways), undefined);
  t.ok(count() <= before);
});

t.test('only lines of this guest count, wherever on its console they are', async (t) => {
  const line = (nonce: string, count: number | string) => `sandbox-probe: ${hashText(nonce)} ${count}.`;
  const console = [
    `Command line: quiet sandbox.probe=one`,
    line('one', 1),
    line('other', 7),
    `x${line('one', 8)}`,
    `${line('one', 9)}x`,
    line('one', 'x'),
    line('one', 12),
    line('one', 3),
  ].join('\n');
  t.same(readCounts(console, 'one'), [1, 12, 3]);
  t.same(readCounts('', 'one'), []);
  // Test vectors of the algorithm's authors.
  t.equal(hashText(''), 'cbf29ce484222325');
  t.equal(hashText('foobar'), '85944171f73967e8');
  t.equal(hashText('10'), '07f89207b4ba08a4');
});

t.test('leftovers of an earlier trial do not disturb the next', async (t) => {
  const { ways, scratchDir } = setUp(t);
  writeFileSync(join(scratchDir, 'left'), '');
  t.equal(await tryGuest(ways), undefined);
  t.ok(existsSync(join(scratchDir, 'left')), 'it may be another’s');
});

t.test('a trial guest, which may lie in memory, uses its disk as it can', async (t) => {
  const jail = { needsDirectWrites: true } as Jail;
  t.ok(isDirect({}, jail));
  t.notOk(isDirect({}, undefined));
  const scratchDir = await mkdtemp(join(tmpdir(), 'trial-'));
  t.teardown(() => rm(scratchDir, { recursive: true }));
  const context = { kernelPath: '/k', initramfsPath: '/i', scratchDir, log: pino({ level: 'silent' }) };
  const asked: BootOptions[] = [];
  const boot = async (options: BootOptions) => {
    asked.push(options);
    throw new Error('a fault of the test');
  };
  const ways = { context: context as unknown as EngineContext, boot, restore: boot, consolePath: () => '' };
  t.match(await tryGuest(ways), /a fault of the test/);
  t.same(
    asked.map((options) => isDirect(options, jail)),
    [false],
  );
});
