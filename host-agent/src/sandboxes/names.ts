// Names of sandboxes, and creates that may return the one that has the name. A name is free again when the create has
// failed or the delete is answered.
import { isDeepStrictEqual } from 'node:util';
import { assertOperation, type Owner, ownerOf, type Principal } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import { raceSignal } from '../lib/wait.ts';
import type { StoredBinding } from '../secrets/index.ts';
import { hashService, metadataOf } from './metadata.ts';
import { type Named, ReservedNames } from './reserved-names.ts';
import type { Sandbox } from './sandbox.ts';
import { toWishes } from './secrets.ts';
import type { CreateSandboxOptions, ResolvedSandboxOptions } from './types.ts';

type NamedSandbox = Pick<Sandbox, 'id' | 'record' | 'isGone'>;

type ValidatedCreate = ResolvedSandboxOptions & { readonly secrets?: readonly StoredBinding[] };

/** `existing`: the sandbox that has the name already and can be returned instead. */
export type AcquiredName<S> = Disposable & { readonly existing?: S };

/** Of names that were found; beyond it all are sought again. */
const MAX_KNOWN = 4096;

export class Names<S extends NamedSandbox> {
  readonly #known = new Map<string, S>();
  readonly #names: ReservedNames<Named & { readonly sandbox: S }>;

  /** `sandboxes` includes those that are being deleted: a delete may fail. */
  constructor(sandboxes: () => Iterable<S>) {
    this.#names = new ReservedNames({
      all: function* () {
        for (const sandbox of sandboxes()) {
          const { id, record } = sandbox;
          yield { id, owner: record.owner, name: metadataOf(record).name, sandbox };
        }
      },
      noun: 'sandbox',
      change: 'created or renamed',
      advice: ({ sandbox }) => (sandbox.isGone ? 'which is being deleted' : 'use another name, or delete it'),
    });
  }

  /** The sandbox without a tenant that has the name. Made for many calls: it is sought among all once. */
  findShared(name: string): S | undefined {
    const known = this.#known.get(name);
    if (known !== undefined && isShared(known, name)) return known;
    this.#known.delete(name);
    const found = this.#names.find(undefined, name)?.sandbox;
    if (found === undefined || !isShared(found, name)) return undefined;
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(name, found);
    return found;
  }

  /** See ReservedNames. */
  reserve(owner: Owner | undefined, name: string | undefined): Disposable {
    return this.#names.reserve(owner, name);
  }

  /**
   * Reserves the name of a create, or returns the sandbox that has it if the create asks for that and for the same
   * parameters. Waits for a create of that name in progress. AppError conflict names the holder and the differences.
   */
  async acquire(
    principal: Principal,
    request: CreateSandboxOptions,
    validated: ValidatedCreate,
    signal: AbortSignal,
  ): Promise<AcquiredName<S>> {
    const { name, ifExists = 'error' } = request;
    const owner = ownerOf(principal);
    if (name === undefined) return this.reserve(owner, name);
    while (ifExists === 'return') {
      const pending = this.#names.pending(owner, name);
      if (pending !== undefined) {
        await raceSignal(pending, signal);
        continue;
      }
      const { sandbox: holder } = this.#names.find(owner, name) ?? {};
      if (holder === undefined || holder.isGone) break;
      const differences = findDifferences(holder, request, validated);
      if (differences.length === 0) {
        // The answer shows what another key made.
        if (holder.record.owner?.key !== owner?.key) assertOperation(principal, 'view');
        return { existing: holder, [Symbol.dispose]: () => undefined };
      }
      throw new AppError(
        'conflict',
        `the name ${name} is that of sandbox ${holder.id}, which has other parameters: ${differences.join('; ')}`,
      );
    }
    return this.reserve(owner, name);
  }
}

function isShared({ record, isGone }: NamedSandbox, name: string): boolean {
  return !isGone && record.owner?.tenant === undefined && metadataOf(record).name === name;
}

/** Without the fields that an absent list may lack. */
function toRules(network: ResolvedSandboxOptions['network']) {
  return network && { rules: [], presets: [], log: 'all', ...network };
}

/** What a create asks for, but for how it is made, and which sandbox it is. */
type Compared = Exclude<
  keyof CreateSandboxOptions | keyof ResolvedSandboxOptions,
  'id' | 'onlyExisting' | 'name' | 'ifExists' | 'pull' | 'readyPort'
>;

/** One phrase for each parameter that a create of this request would give another value. No values of variables. */
function findDifferences(
  { record }: NamedSandbox,
  request: CreateSandboxOptions,
  wanted: ValidatedCreate,
): string[] {
  const { options } = record;
  const { labels, env, secrets, serviceHash } = metadataOf(record);
  const shown = (name: string, has: unknown, asked: unknown): string[] =>
    has === asked ? [] : [`${name} is ${JSON.stringify(has)}, not ${JSON.stringify(asked)}`];
  const hidden = (name: string, has: unknown, asked: unknown): string[] =>
    isDeepStrictEqual(has, asked) ? [] : [`${name} differs`];
  const root = ({ rootfs: { kind, name } }: ResolvedSandboxOptions): string => `${kind} ${name}`;
  const wantedService = request.service && hashService(request.service);
  const { idle: has } = options;
  const { idle: asked } = wanted;
  const differences: Record<Compared, string[]> = {
    rootfs: shown('root', root(options), root(wanted)),
    vcpus: shown('vcpus', options.vcpus, wanted.vcpus),
    memoryMib: shown('memory_mib', options.memoryMib, wanted.memoryMib),
    diskBytes: shown('disk_bytes', options.diskBytes, wanted.diskBytes),
    timeoutS: shown('timeout_s', options.timeoutS, wanted.timeoutS),
    idle: [
      ...shown('idle_timeout_s', has?.timeoutS ?? 0, asked?.timeoutS ?? 0),
      ...shown('idle_action', has?.action ?? 'delete', asked?.action ?? 'delete'),
      ...shown('keep_last', has?.keepLast, asked?.keepLast),
      ...shown('snapshot_expires_s', has?.snapshotExpiresS ?? 0, asked?.snapshotExpiresS ?? 0),
    ],
    timeoutAction: shown(
      'timeout_action',
      options.timeoutAction ?? 'delete',
      wanted.timeoutAction ?? 'delete',
    ),
    autoResume: shown('auto_resume', options.autoResume ?? true, wanted.autoResume ?? true),
    bootArgs: hidden('boot_args', options.bootArgs, wanted.bootArgs),
    network: hidden('network', toRules(options.network), toRules(wanted.network)),
    publish: hidden('publish', options.publish ?? [], wanted.publish ?? []),
    service: hidden('service', serviceHash, wantedService),
    labels: hidden('labels', { ...labels }, { ...request.labels }),
    env: hidden('env', Object.fromEntries(env), { ...request.env }),
    secrets: hidden('secrets', toWishes(secrets), toWishes(wanted.secrets)),
  };
  return Object.values(differences).flat();
}
