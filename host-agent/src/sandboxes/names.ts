// Names of sandboxes: unique within a tenant. A name is reserved before its sandbox is made, so that of concurrent
// creates only one has it, and is free again when the create has failed or the delete is answered.
import { isDeepStrictEqual } from 'node:util';
import { assertOperation, type Owner, ownerOf, type Principal } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import { raceSignal } from '../lib/wait.ts';
import { hashService, metadataOf } from './metadata.ts';
import type { Sandbox } from './sandbox.ts';
import type { CreateSandboxOptions, ResolvedSandboxOptions } from './types.ts';

type NamedSandbox = Pick<Sandbox, 'id' | 'record' | 'isGone'>;

/** `existing`: the sandbox that has the name already and can be returned instead. */
export type AcquiredName<S> = Disposable & { readonly existing?: S };

const NO_NAME: AcquiredName<never> = { [Symbol.dispose]: () => undefined };

export class Names<S extends NamedSandbox> {
  readonly #sandboxes: () => Iterable<S>;
  /** Resolve when the create or change has ended. */
  readonly #reserved = new Map<string, Promise<void>>();

  /** `sandboxes` includes those that are being deleted: a delete may fail. */
  constructor(sandboxes: () => Iterable<S>) {
    this.#sandboxes = sandboxes;
  }

  /** Until disposed; by then the sandbox has the name, or does not exist. AppError conflict names the holder. */
  reserve(owner: Owner | undefined, name: string | undefined): Disposable {
    if (name === undefined) return NO_NAME;
    const holder = this.#find(owner, name);
    if (holder !== undefined) {
      const advice = holder.isGone ? 'which is being deleted' : 'use another name, or delete it';
      throw new AppError('conflict', `the name ${name} is that of sandbox ${holder.id}; ${advice}`);
    }
    const key = toKey(owner, name);
    if (this.#reserved.has(key))
      throw new AppError(
        'conflict',
        `the name ${name} is that of a sandbox that is being created or renamed`,
      );
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#reserved.set(key, promise);
    return {
      [Symbol.dispose]: () => {
        this.#reserved.delete(key);
        resolve();
      },
    };
  }

  /**
   * Reserves the name of a create, or returns the sandbox that has it if the create asks for that and for the same
   * parameters. Waits for a create of that name in progress. AppError conflict names the holder and the differences.
   */
  async acquire(
    principal: Principal,
    request: CreateSandboxOptions,
    validated: ResolvedSandboxOptions,
    signal: AbortSignal,
  ): Promise<AcquiredName<S>> {
    const { name, ifExists = 'error' } = request;
    const owner = ownerOf(principal);
    if (name === undefined) return NO_NAME;
    while (ifExists === 'return') {
      const pending = this.#reserved.get(toKey(owner, name));
      if (pending !== undefined) {
        await raceSignal(pending, signal);
        continue;
      }
      const holder = this.#find(owner, name);
      if (holder === undefined || holder.isGone) break;
      const differences = findDifferences(holder, request, validated);
      if (differences.length === 0) {
        // The answer shows what another key made.
        if (holder.record.owner?.key !== owner?.key) assertOperation(principal, 'view');
        return { ...NO_NAME, existing: holder };
      }
      throw new AppError(
        'conflict',
        `the name ${name} is that of sandbox ${holder.id}, which has other parameters: ${differences.join('; ')}`,
      );
    }
    return this.reserve(owner, name);
  }

  #find(owner: Owner | undefined, name: string): S | undefined {
    for (const sandbox of this.#sandboxes()) {
      const { record } = sandbox;
      if (record.owner?.tenant === owner?.tenant && metadataOf(record).name === name) return sandbox;
    }
    return undefined;
  }
}

function toKey(owner: Owner | undefined, name: string): string {
  return JSON.stringify([owner?.tenant, name]);
}

/** One phrase for each parameter that a create of this request would give another value. No values of variables. */
function findDifferences(
  { record }: NamedSandbox,
  request: CreateSandboxOptions,
  wanted: ResolvedSandboxOptions,
): string[] {
  const { options } = record;
  const { labels, env, serviceHash } = metadataOf(record);
  const shown = (name: string, has: unknown, asked: unknown): string[] =>
    has === asked ? [] : [`${name} is ${JSON.stringify(has)}, not ${JSON.stringify(asked)}`];
  const hidden = (name: string, has: unknown, asked: unknown): string[] =>
    isDeepStrictEqual(has, asked) ? [] : [`${name} differs`];
  const root = ({ rootfs: { kind, name } }: ResolvedSandboxOptions): string => `${kind} ${name}`;
  const wantedService = request.service && hashService(request.service);
  return [
    ...shown('root', root(options), root(wanted)),
    ...shown('vcpus', options.vcpus, wanted.vcpus),
    ...shown('memory_mib', options.memoryMib, wanted.memoryMib),
    ...shown('disk_bytes', options.diskBytes, wanted.diskBytes),
    ...shown('timeout_s', options.timeoutS, wanted.timeoutS),
    ...shown('idle_timeout_s', options.idle?.timeoutS ?? 0, wanted.idle?.timeoutS ?? 0),
    ...shown('idle_action', options.idle?.action ?? 'delete', wanted.idle?.action ?? 'delete'),
    ...hidden('boot_args', options.bootArgs, wanted.bootArgs),
    ...hidden('network', options.network?.allowlist, wanted.network?.allowlist),
    ...hidden('publish', options.publish ?? [], wanted.publish ?? []),
    ...hidden('service', serviceHash, wantedService),
    ...hidden('labels', { ...labels }, { ...request.labels }),
    ...hidden('env', Object.fromEntries(env), { ...request.env }),
  ];
}
