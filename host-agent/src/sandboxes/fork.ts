// Forks: copies of a snapshot, or of a sandbox as it is now. All of a request become visible together, or none.
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import { type Limits, ownerOf } from '../keys/index.ts';
import type { Presets } from '../network/presets.ts';
import type { Admission, Need } from './admission.ts';
import { type Copy, forkGuest } from './create.ts';
import { type ForkSource, findForkSource } from './fork-source.ts';
import type { SandboxRequest } from './interface.ts';
import { inheritMetadata, metadataOf, NO_METADATA } from './metadata.ts';
import type { Names } from './names.ts';
import { parentOf, type SandboxRecord, toSavedOptions } from './record.ts';
import { assertCanPublish, assertOneName, inheritOptions } from './resolve-create.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import { saveForForks } from './save-sandbox.ts';
import type { SavedGuest } from './saved/saved-guest.ts';
import { assertUsable, scopeOf } from './secrets.ts';
import type { Sleep } from './sleep/sleep.ts';
import type { Snapshots } from './snapshots.ts';
import type { CopySource } from './start.ts';
import type { ForkOptions, SandboxInfo } from './types.ts';
import { toForkNeed, toRequestedResources } from './usage.ts';

type ForksDeps = {
  readonly context: ResourceContext;
  readonly admission: Pick<Admission, 'reserve'>;
  readonly limits: Pick<Limits, 'admit'>;
  readonly names: Pick<Names<Sandbox>, 'reserve'>;
  readonly presets: Pick<Presets, 'assertAvailable' | 'withCurrentNames'>;
  readonly snapshots: Pick<Snapshots, 'get' | 'open' | 'authorityOf' | 'secretsOf' | 'stored'>;
  readonly sleep: Pick<Sleep, 'wake' | 'endVm'>;
  readonly startQueue: PQueue;
  /** Reserves capacity, runs `make` and commits. */
  readonly add: (
    need: Need,
    signal: AbortSignal,
    make: () => Promise<Sandbox[]>,
    request: SandboxRequest,
  ) => Promise<Sandbox[]>;
  /** A stopping daemon waits for it. */
  readonly track: <T>(work: Promise<T>) => Promise<T>;
  readonly log: Logger;
};

export class Forks {
  readonly #deps: ForksDeps;

  constructor(deps: ForksDeps) {
    this.#deps = deps;
  }

  async ofSnapshot(
    id: string,
    count: number,
    signal: AbortSignal,
    request: SandboxRequest,
    own: ForkOptions,
  ): Promise<SandboxInfo[]> {
    const { snapshots, context } = this.#deps;
    snapshots.get(id);
    await context.engines.chosen(signal);
    const source = await findForkSource(snapshots, id, signal);
    return await this.#fork(source, count, signal, request, own);
  }

  /** It is saved for the forks alone; what was saved is removed in every case. */
  async ofSandbox(
    sandbox: Sandbox,
    count: number,
    signal: AbortSignal,
    request: SandboxRequest,
    own: ForkOptions,
  ): Promise<SandboxInfo[]> {
    const { context, sleep, track, log } = this.#deps;
    await context.engines.chosen(signal);
    let saved: SavedGuest | undefined;
    const open = async (): Promise<SavedGuest> => {
      if (sandbox.record.paused?.hasMemory !== true) await sleep.wake(sandbox, signal);
      const endVm = () => sleep.endVm(sandbox);
      saved = await track(saveForForks(sandbox, { ...this.#deps, endVm }, signal));
      context.faults.reach('fork.saved');
      return saved;
    };
    const endUse = sandbox.use.beginUse();
    try {
      const { record } = sandbox;
      const source = {
        ...{ options: toSavedOptions(record), secrets: metadataOf(record).secrets ?? [] },
        ...{ of: toCopySource(sandbox.id, record), open },
      };
      return await this.#fork(source, count, signal, request, own);
    } finally {
      endUse();
      // After a failure, the next daemon removes it.
      await saved?.remove().catch((err) => log.warn({ err }, 'cannot remove what was saved for forks'));
    }
  }

  async #fork(
    { options, secrets: inherited, of, open }: ForkSource,
    count: number,
    signal: AbortSignal,
    request: SandboxRequest,
    own: ForkOptions,
  ): Promise<SandboxInfo[]> {
    const { context, limits, names, presets, startQueue, add, log } = this.#deps;
    presets.assertAvailable(options.network?.presets ?? []);
    using _authority = context.authorities.hold(of.authority);
    const {
      children = new Array<ForkOptions>(count).fill({}),
      publish = [],
      secrets: changes = {},
      ...shared
    } = own;
    const secrets = context.secrets.change(inherited, changes, scopeOf(request.principal));
    const allPorts = [...publish, ...children.flatMap((each) => each.publish ?? [])];
    const judged = {
      ...options,
      ...(options.network && { network: presets.withCurrentNames(options.network) }),
    };
    const requested = toRequestedResources(inheritOptions(judged, allPorts), children.length, secrets);
    using _admitted = limits.admit(request, requested);
    assertCanPublish(publish, children.length, options);
    assertOneName(shared.name, children.length);
    const owner = ownerOf(request.principal);
    using reserved = new DisposableStack();
    const copies = children.map((child): Copy => {
      const ports = child.publish ?? publish;
      assertCanPublish(ports, 1, options);
      const source = { ...(options.inherited ?? NO_METADATA), secrets };
      const metadata = inheritMetadata(inheritMetadata(source, shared), {
        ...child,
        name: child.name ?? shared.name,
      });
      assertUsable(secrets, options.network, Object.fromEntries(metadata.env));
      reserved.use(names.reserve(owner, metadata.name));
      return { options: inheritOptions(options, ports), metadata };
    });
    const saved = await open();
    const input = { saved, of, copies, owner, startQueue, log, signal };
    const { reservesDisks } = context.settings;
    const need = await toForkNeed(saved, copies.length, reservesDisks, context.engines.current);
    const sandboxes = await add(need, signal, () => forkGuest(context, input), request);
    return sandboxes.map(({ info }) => info);
  }
}

function toCopySource(id: string, record: SandboxRecord): CopySource {
  const { authority } = record;
  const parent = parentOf(record);
  return {
    sourceSandboxId: id,
    ...(parent !== undefined && { parentSnapshotId: parent }),
    ...(authority !== undefined && { authority }),
  };
}
