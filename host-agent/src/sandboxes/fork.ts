// Forks: copies of a snapshot, or of a sandbox as it is now. All of a request become visible together, or none.
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import { type Limits, type Owner, ownerOf } from '../keys/index.ts';
import { enqueue } from '../lib/concurrency-limit.ts';
import { AppError } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import type { Presets } from '../network/presets.ts';
import type { StoredBinding } from '../secrets/index.ts';
import type { Admission, Need } from './admission.ts';
import { type CopySource, startSandbox } from './create.ts';
import type { SandboxRequest } from './interface.ts';
import { inheritMetadata, type Metadata, metadataOf, NO_METADATA } from './metadata.ts';
import type { Names } from './names.ts';
import { parentOf, type SandboxRecord, toSavedOptions } from './record.ts';
import { assertCanPublish, assertOneName, inheritOptions } from './resolve-create.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import { saveTemporarily } from './save-sandbox.ts';
import type { SavedManifest } from './saved/manifest.ts';
import type { SavedGuest } from './saved/saved-guest.ts';
import { assertUsable, scopeOf } from './secrets.ts';
import type { Sleep } from './sleep/sleep.ts';
import type { Snapshots } from './snapshots.ts';
import type { ForkOptions, ResolvedSandboxOptions, SandboxInfo } from './types.ts';
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
      saved = await track(saveTemporarily(sandbox, { ...this.#deps, endVm }, signal));
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
      ids = [],
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
    const copies = children.map((child, at): Copy => {
      const ports = child.publish ?? publish;
      assertCanPublish(ports, 1, options);
      const source = { ...(options.inherited ?? NO_METADATA), secrets };
      const metadata = inheritMetadata(inheritMetadata(source, shared), {
        ...child,
        name: child.name ?? shared.name,
      });
      assertUsable(secrets, options.network, Object.fromEntries(metadata.env));
      reserved.use(names.reserve(owner, metadata.name));
      return { id: ids[at], options: inheritOptions(options, ports), metadata };
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

type Copy = {
  /** Absent: a new one. */
  readonly id: string | undefined;
  readonly options: ResolvedSandboxOptions;
  readonly metadata: Metadata;
};

type ForkInput = {
  readonly of: CopySource;
  readonly saved: SavedGuest;
  readonly copies: readonly Copy[];
  /** Owner of the copies. */
  readonly owner: Owner | undefined;
  /** Limits concurrent starts; shared by all tenants. */
  readonly startQueue: PQueue;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

/** The first failure cancels the other copies, and all are removed. */
async function forkGuest(context: ResourceContext, input: ForkInput): Promise<Sandbox[]> {
  const { saved, of, copies, owner, log } = input;
  const failed = new AbortController();
  const signal = AbortSignal.any([input.signal, failed.signal]);
  let firstFailure: unknown;
  const startOne = async ({ id = newId('sbx'), ...copy }: Copy): Promise<Sandbox> => {
    try {
      return await enqueue(
        input.startQueue,
        () =>
          startSandbox(context, {
            ...{ id, of, owner, ...copy },
            origin: { kind: 'saved', saved },
            log: log.child({ sandbox: id }),
            signal,
          }),
        signal,
      );
    } catch (error) {
      firstFailure ??= error;
      failed.abort(new AppError('cancelled', 'another copy could not be started'));
      throw error;
    }
  };
  const results = await saved.use(() => Promise.allSettled(copies.map(startOne)));
  const started = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  if (started.length === copies.length) return started;
  await Promise.all(started.map((sandbox) => sandbox.discard()));
  input.signal.throwIfAborted();
  throw firstFailure;
}

/** What forks of a snapshot start from: the files of this host, or those that the snapshot store has. */
type ForkSource = {
  readonly options: SavedManifest['options'];
  /** With their values, which the options do not have. */
  readonly secrets: readonly StoredBinding[];
  readonly of: CopySource;
  readonly open: () => Promise<SavedGuest>;
};

/**
 * One that is only in the snapshot store is checked now, and fetched by `open`. AppError as of `Snapshots.open` and
 * `StoredSnapshots.fetch`.
 */
async function findForkSource(
  snapshots: Pick<Snapshots, 'open' | 'authorityOf' | 'secretsOf' | 'stored'>,
  id: string,
  signal: AbortSignal,
): Promise<ForkSource> {
  const { stored } = snapshots;
  if (stored?.findRemote(id)) {
    const { secrets, ...options } = await stored.resolve(id, signal);
    const open = async () => {
      await stored.fetch(id, signal);
      return snapshots.open(id);
    };
    return { options, secrets, of: { sourceSnapshotId: id }, open };
  }
  const saved = snapshots.open(id);
  const of = { sourceSnapshotId: id, ...snapshots.authorityOf(id) };
  const secrets = snapshots.secretsOf(id);
  return { options: saved.manifest.options, secrets, of, open: async () => saved };
}
