// Choosing an engine on hosts that are not what they seem: firmware writes and the kernel dies, the kernel crawls, a copy
// does not go on. The engine under test runs a stand-in for its program; what it is measured by is told what to say.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { EngineChoice, FirstStartError } from '../../host-agent/src/engines/choice.ts';
import type { Engine, EngineProbe } from '../../host-agent/src/engines/engine.ts';
import { describeTries } from '../../host-agent/src/engines/select.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { type FakeHost, makeFakeHost } from '../support/fake-cloud-hypervisor/host.ts';
import type { Trial } from '../support/fake-cloud-hypervisor/knobs.ts';
import { MadeEngine } from '../support/made-engines.ts';

t.setTimeout(200_000);
const NEVER_MS = 900_000;
const never = new AbortController().signal;
const log = pino({ level: 'silent' });

/** An engine that is probed successfully after some time. */
const slowEngine = (
  afterMs: number,
  answer: EngineProbe = { isUsable: true, version: '1', detail: 'slow' },
) => new MadeEngine('slow', { accelerator: 'software', isEmulation: true, afterMs, answer });

async function open(host: FakeHost, engines: readonly Engine[], signal = never): Promise<EngineChoice> {
  const [vmlinuxPath, initramfsPath] = [join(host.dir, 'kernel'), join(host.dir, 'initramfs')];
  const scratchDir = join(host.dir, 'scratch');
  const kernel = { vmlinuxPath, initramfsPath, digest: 'k' };
  const cacheDir = join(host.dir, 'engines');
  const choice = await EngineChoice.open({ engines, kernel, scratchDir, cacheDir, log }, signal);
  await choice.chosen(signal);
  return choice;
}

const verdicts = (choice: EngineChoice) => choice.tried.map(({ name, verdict }) => `${name}: ${verdict}`);

t.test('the faster one is taken as soon as its copy goes on, and emulation given up', async (t) => {
  const host = makeFakeHost(t);
  const slow = slowEngine(NEVER_MS);
  const choice = await open(host, [host.engine(), slow.asEngine]);
  t.equal(choice.current.name, 'cloud-hypervisor');
  t.same(verdicts(choice), ['cloud-hypervisor: works', 'slow: not needed: one before it works']);
  t.match(choice.current.compatibility(), { version: '53.0' });
});

t.test('a host on which guests only seem to run', async (t) => {
  const alone = async (trial: Trial, limitMs: number): Promise<EngineProbe> => {
    const host = makeFakeHost(t);
    host.set({ trial });
    const probe = await host.engine('auto', limitMs).probe();
    t.same(host.processes(), [], 'nothing of it is left');
    return probe;
  };
  // What is alone has no measure but its own limit, of which everything before the failure needs a part.
  const [dies, freezes, forgets] = await Promise.all([
    alone('dies', 15_000),
    alone('freezes', 30_000),
    alone('forgets', 120_000),
  ]);
  t.match(dies, { isUsable: false, reason: 'cannot reach the first program of a guest: no sign of life' });
  t.match(freezes, { isUsable: false, reason: 'cannot have a restored guest go on: no sign of life' });
  t.match(forgets, { isUsable: false, reason: 'cannot have a restored guest go on: it began again' });

  for (const trial of ['dies', 'crawls', 'freezes'] as const) {
    const host = makeFakeHost(t);
    host.set({ trial });
    // The guest that crawls sleeps ten times as long.
    const choice = await open(host, [host.engine(), slowEngine(500).asEngine]);
    t.equal(choice.current.name, 'slow', trial);
    const verdict = /^slower than emulation, which took \d+ ms$/;
    t.match(choice.tried[0], { name: 'cloud-hypervisor', accelerator: 'kvm', verdict }, trial);
    t.match(choice.reason, /^slow 1: slow; cloud-hypervisor \(kvm\): slower than emulation/);
    t.same(host.processes(), [], 'nothing of it is left');
    t.notOk(readdirSync(host.dir).includes('scratch'));
  }
});

t.test('a copy that is refused', async (t) => {
  const host = makeFakeHost(t);
  host.fault({ at: 'vm.restore', kind: 'refuse', needs: '"resume":false' });
  const reason = /^cannot restore a saved guest: .*a fault of the test/;
  t.match(await host.engine().probe(), { isUsable: false, reason });
});

t.test('when nothing works, the error says what was tried, and nothing is remembered', async (t) => {
  const host = makeFakeHost(t);
  host.set({ version: '52' });
  const broken = slowEngine(1, { isUsable: false, reason: 'out of order' });
  await t.rejects(open(host, [host.engine(), broken.asEngine]), {
    code: 'unsupported',
    message: /cloud-hypervisor \(kvm\): .* is version 52.*; slow \(software\): out of order, \d+ ms$/,
  });
  t.notOk(readdirSync(host.dir).includes('engines'));
  await t.rejects(open(host, [slowEngine(NEVER_MS).asEngine], AbortSignal.timeout(50)), {
    name: 'TimeoutError',
  });
  t.equal(describeTries([]), '');
});

t.test('a choice is remembered for as long as its circumstances last', async (t) => {
  const host = makeFakeHost(t);
  const first = await open(host, [host.engine(), slowEngine(NEVER_MS).asEngine]);
  t.equal(first.current.name, 'cloud-hypervisor');
  const [name = ''] = readdirSync(join(host.dir, 'engines'));
  t.match(name, /^[0-9a-f]{16}\.json$/);
  // Now a probe would fail.
  host.set({ trial: 'dies' });
  const slow = slowEngine(1);
  const again = await open(host, [host.engine(), slow.asEngine]);
  t.equal(again.current.name, 'cloud-hypervisor');
  t.equal(slow.signals.length, 0);
  t.same(again.tried, first.tried);
  const paths = host.makePaths('one');
  await (await again.current.boot(host.bootOptions(paths))).kill();
  t.same(again.current.compatibility(), first.current.compatibility());

  slow.program = 'another';
  const other = await open(host, [host.engine(), slow.asEngine]);
  t.equal(other.current.name, 'slow', 'another program is another circumstance');
  t.equal(readdirSync(join(host.dir, 'engines')).length, 2);
  host.set({ version: 'next', trial: 'lives' });
  const newer = await open(host, [host.engine(), slowEngine(NEVER_MS).asEngine]);
  t.equal(newer.version, '54.0');
});

t.test('an engine that does not start the first real guest is replaced', async (t) => {
  const host = makeFakeHost(t);
  const slow = slowEngine(NEVER_MS);
  const engines = () => [host.engine(), slow.asEngine];
  const choice = await open(host, engines());
  const first = choice.current;
  t.equal(first.name, 'cloud-hypervisor');
  slow.afterMs = 1;
  const used: string[] = [];
  const fault = (stage: string) => new AppError('internal', 'it died\nregisters', { stage });
  const create = () =>
    choice.withReplacement(() =>
      choice.bootOrReplaceEngine(async () => {
        used.push(choice.current.name);
        if (choice.current === first) throw fault('agent');
        choice.markProven(choice.current);
        return choice.current.name;
      }, never),
    );
  t.same(await Promise.all([create(), create(), create()]), ['slow', 'slow', 'slow']);
  t.same(used.sort(), [...Array(3).fill('cloud-hypervisor'), ...Array(3).fill('slow')]);
  t.same(verdicts(choice), ['cloud-hypervisor: the first guest did not start: it died', 'slow: works']);
  const probes = slow.signals.length;
  await t.rejects(
    choice.withReplacement(() =>
      choice.bootOrReplaceEngine(async () => Promise.reject(fault('boot')), never),
    ),
    { message: /^it died/ },
    'a later failure is that guest’s own',
  );
  t.equal(choice.current.name, 'slow');
  const next = await open(host, engines());
  t.equal(next.current.name, 'slow', 'the next daemon knows');
  t.match(next.tried[0], { verdict: /the first guest did not start/ });
  t.equal(slow.signals.length, probes);
});

t.test('a guest that starts nowhere is no reason to leave the engine', async (t) => {
  const host = makeFakeHost(t);
  const slow = slowEngine(NEVER_MS);
  const choice = await open(host, [host.engine(), slow.asEngine]);
  slow.afterMs = 1;
  const create = (error: Error) =>
    choice.withReplacement(() => choice.bootOrReplaceEngine(async () => Promise.reject(error), never));
  await t.rejects(create(new AppError('internal', 'no init', { stage: 'boot' })), { message: 'no init' });
  t.equal(choice.current.name, 'cloud-hypervisor');
  t.same(readdirSync(join(host.dir, 'engines')), [], 'but it is tried anew by the next daemon');
  await t.rejects(create(new AppError('exhausted', 'full', { stage: 'boot' })), { message: 'full' });
  t.equal(choice.current.name, 'cloud-hypervisor', 'a full disk is not the engine’s fault');
  t.match(verdicts(choice)[0], 'cloud-hypervisor: works');

  const named = await open(host, [host.engine()]);
  await t.rejects(
    named.withReplacement(() =>
      named.bootOrReplaceEngine(async () => {
        throw new AppError('internal', 'it died', { stage: 'agent' });
      }, never),
    ),
    {
      message:
        'it died; no guest has run on the engine cloud-hypervisor so far, and --engine allows no other',
    },
  );
  t.ok(new FirstStartError(true, undefined).isReplaced);
});
