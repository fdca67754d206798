// Checks whether guests run here, with the daemon's own probe: a temporary guest is booted, saved and copied.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resolveKernel, seedKernel } from '@sandboxd/rootfs-builder';
import { pino } from 'pino';
import type { Helpers } from '../../app/context.ts';
import { CHOICE_DIR, makeCandidates } from '../../app/open-engines.ts';
import { findExchangeable } from '../../app/weak-settings.ts';
import type { Config } from '../../config/index.ts';
import { EngineChoice } from '../../engines/choice.ts';
import type { Engine, EngineProbe } from '../../engines/engine.ts';
import { AUTO, makeEngines } from '../../engines/index.ts';
import { openIsolation } from '../../engines/isolation.ts';
import { firstLine } from '../../lib/errors.ts';
import { ensurePrivateDirectory } from '../../lib/private-directory.ts';
import { type Finding, fault, type Group, ok, warning } from './host.ts';

/** `quick` boots no guest; `remember` tries the engines as a daemon's start does, and leaves the choice for it. */
export type ProbeMode = 'quick' | 'all' | 'remember';

export function engines(helpers: Helpers, mode: ProbeMode, signal: AbortSignal): Group {
  return {
    name: 'guests',
    check: async ({ config }) => {
      const scratch = await mkdtemp(join(tmpdir(), 'doctor-'));
      try {
        return await checkGuests({ config, helpers, mode, signal, scratch });
      } finally {
        await rm(scratch, { recursive: true, force: true });
      }
    },
  };
}

type Options = {
  readonly config: Config;
  readonly helpers: Helpers;
  readonly mode: ProbeMode;
  readonly signal: AbortSignal;
  readonly scratch: string;
};

async function checkGuests({ config, helpers, mode, signal, scratch }: Options): Promise<Finding[]> {
  const log = pino({ level: 'silent' });
  const jailOptions = config.jail && {
    ...config.jail,
    program: helpers.jail,
    cgroups: { ...config.jail.cgroups, dir: '/' },
  };
  const isolation = await openIsolation({ jail: jailOptions, isRequired: false, log }).catch(
    (error: unknown) => firstLine(error),
  );
  if (typeof isolation === 'string')
    return [fault('jail', isolation, 'run this, and the daemon, as root on a host that allows it')];
  const jail = judgeJail(isolation.report, config.requiresIsolation);
  const findOne = mode === 'remember' ? ownKernel : findKernel;
  const kernel = await findOne(config, helpers, scratch).catch((error: unknown) => firstLine(error));
  if (typeof kernel === 'string') return [jail, fault('kernel of guests', kernel, 'sandboxd profiles bake')];
  const prepared = ok('kernel of guests', kernel.version);
  if (mode === 'quick') return [jail, prepared];
  // A probe would run these programs as root.
  const others = (await findExchangeable(config)).filter(({ level }) => level === 'fault');
  if (others.length > 0)
    return [jail, prepared, ...others.map(({ setting, ...finding }) => ({ name: setting, ...finding }))];
  const context = {
    ...{ kernelPath: kernel.vmlinuxPath, initramfsPath: kernel.initramfsPath, scratchDir: scratch },
    ...{ forkMemory: config.forkMemory, probeTimeoutMs: config.probeTimeoutMs, jail: isolation.jail },
    ...{ claimProgram: helpers.claim, memfdProgram: helpers.memfd, log },
  };
  if (mode === 'remember') {
    const candidates = makeCandidates(config, context);
    return [jail, prepared, await rememberChoice(config, { candidates, kernel, scratch, signal })];
  }
  const tried: Tried[] = [];
  for (const engine of makeEngines(config.engine, context, config.enginePrograms))
    tried.push({ engine, probe: await engine.probe(signal) });
  return [jail, prepared, ...judgeEngines(tried, config)];
}

type Rememberable = Pick<Options, 'scratch' | 'signal'> & {
  readonly candidates: readonly Engine[];
  readonly kernel: Awaited<ReturnType<typeof findKernel>>;
};

/** Chooses an engine as a daemon's start does, and leaves the choice in the data directory. */
async function rememberChoice(
  { dataDir }: Config,
  { candidates, kernel, scratch, signal }: Rememberable,
): Promise<Finding> {
  const options = {
    engines: candidates,
    kernel,
    cacheDir: join(dataDir, CHOICE_DIR),
    scratchDir: join(scratch, 'probe'),
    log: pino({ level: 'silent' }),
  };
  try {
    await using choice = await EngineChoice.open(options, signal);
    const { isEmulation } = await choice.chosen(signal);
    return isEmulation || choice.isSlow
      ? warning(
          'engine',
          choice.reason,
          'for development only, unless this host has nothing faster: see sandboxd doctor',
        )
      : ok('engine', choice.reason);
  } catch (error) {
    signal.throwIfAborted();
    return fault('engine', firstLine(error), 'see what `sandboxd doctor` says, and docs/engines.md');
  }
}

/** The kernel of the data directory, to which the package's is added, as a daemon's start does. */
async function ownKernel({ dataDir, kernelPath, initramfsPath }: Config, { kernel }: Helpers) {
  await ensurePrivateDirectory(dataDir);
  if (kernel !== undefined) await seedKernel(dataDir, kernel);
  return resolveKernel(dataDir, { KERNEL: kernelPath, INITRD: initramfsPath });
}

/** Finds the kernel in use. Without one, the kernel of the package is tried in a scratch directory. */
async function findKernel(config: Config, helpers: Helpers, scratch: string) {
  const overrides = { KERNEL: config.kernelPath, INITRD: config.initramfsPath };
  return resolveKernel(config.dataDir, overrides).catch(async (error: unknown) => {
    if (helpers.kernel === undefined) throw error;
    const dir = join(scratch, 'kernel');
    await seedKernel(dir, helpers.kernel);
    return resolveKernel(dir, overrides);
  });
}

export function judgeJail(
  { enabled, missing }: { readonly enabled: boolean; readonly missing: readonly string[] },
  isRequired: boolean,
): Finding {
  if (!enabled)
    return warning('jail', 'none: a guest that breaks its VMM has the host', 'drop insecure_no_jail');
  if (missing.length === 0) return ok('jail', 'whole');
  return (isRequired ? fault : warning)(
    'jail',
    `without ${missing.join(', ')}`,
    'see the control groups below; sandboxes start without these limits, and not at all with require_isolation',
  );
}

export type Tried = {
  readonly engine: Pick<Engine, 'name' | 'accelerator' | 'isEmulation'>;
  readonly probe: EngineProbe;
};

/** One line for each engine. An unusable engine is not a problem when a faster one works. */
export function judgeEngines(
  tried: readonly Tried[],
  config: Pick<Config, 'engine' | 'requiresIsolation'>,
): Finding[] {
  const works = tried.filter(({ probe }) => probe.isUsable);
  const isFast = works.some(({ engine }) => !engine.isEmulation);
  const isFit = isFast || (works.length > 0 && !config.requiresIsolation);
  return tried.map(({ engine, probe }) => {
    const name = `${engine.name} (${engine.accelerator})`;
    const seen = probe.isUsable ? `${probe.version}: ${probe.detail}` : probe.reason;
    if (probe.isUsable && (!engine.isEmulation || isFast)) return ok(name, seen);
    if (!probe.isUsable && isFast) return ok(name, `not used: ${seen}`);
    const advice = probe.isUsable
      ? 'for development only: switch virtualisation on in the firmware, load kvm_intel or kvm_amd, or take a machine that has it'
      : config.engine === AUTO
        ? 'see what the other lines say; docs/engines.md has the ways'
        : `engine is ${config.engine}: mend that, or take another (docs/engines.md)`;
    return (isFit ? warning : fault)(name, seen, advice);
  });
}
