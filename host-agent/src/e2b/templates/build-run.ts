// One build: a sandbox gets the steps, is saved with its memory, and is deleted. Unless it succeeds, all of it goes.
// Requests are those of the client: its policy, quotas and tenant hold, and the audit trail has them.

import { setTimeout as sleep } from 'node:timers/promises';
import { DEFAULT_MEMORY_MIB, DEFAULT_VCPUS } from '@sandboxd/api';
import { ForbiddenError } from '@sandboxd/client';
import type { Caller } from '../../http/context.ts';
import type { PlacedSize } from '../../http/placement.ts';
import { mayDo, type Principal, policyOf } from '../../keys/index.ts';
import { toTargets } from '../control/rules.ts';
import { E2bError, toE2bAnswer } from '../errors.ts';
import type { Requests, Rest } from '../rest.ts';
import { type BuildLog, type BuildRequest, describeStep, StepError } from './build-request.ts';
import type { BuildSandboxes } from './build-sandboxes.ts';
import { BuildSteps } from './build-steps.ts';
import { type Catalogue, findImage, findTemplate, type Source } from './find-template.ts';
import type { Defaults, Template, TemplateBuild } from './template.ts';

export const BUILD_TIMEOUT_MS = 60 * 60_000;
/** What the sandbox of a build may live longer, if the daemon ends. */
const GRACE_S = 300;
/** E2B's own image. */
const BASE_IMAGE = /^(?:docker\.io\/)?e2bdev\/base(?::latest)?$/;
export const KEY_CHECK_MS = 5000;
const STORE_POLL_MS = 100;
const STORE_TIMEOUT_MS = 15 * 60_000;

/** Of the sandbox of a build that waits for its turn. */
export type HeldPlace = Disposable & { readonly header: string | undefined };

export type BuildJob = {
  readonly id: string;
  readonly template: Template;
  readonly caller: Caller;
  readonly tags: readonly string[];
  readonly size: { readonly vcpus?: number; readonly memory_mib?: number };
  readonly log: BuildLog;
  readonly stop: AbortController;
  /** In a fleet, once it was begun. */
  readonly place: HeldPlace | undefined;
};

export type BuildRunnerOptions = {
  readonly catalogue: Catalogue;
  readonly sandboxes: BuildSandboxes;
  readonly findArchive: (build: BuildJob, hash: string) => string;
  readonly isValid: (principal: Principal) => boolean;
  /** Whether sandboxes leave this host, also those of builds. */
  readonly isDraining: () => boolean;
};

type NamedSource = { readonly name: string; readonly source: Source };
type Made = { readonly id: string; readonly source: Source };

export class BuildRunner {
  readonly #options: BuildRunnerOptions;
  #rest: Rest | undefined;

  constructor(options: BuildRunnerOptions) {
    this.#options = options;
  }

  start(rest: Rest): void {
    this.#rest = rest;
  }

  /** Of the sandbox that it will have. What cannot be found fails when it runs. */
  async sizeOf(build: BuildJob, request: BuildRequest, signal: AbortSignal): Promise<PlacedSize> {
    const { vcpus = DEFAULT_VCPUS, memory_mib: memoryMib = DEFAULT_MEMORY_MIB } = build.size;
    const requests = this.#as(build.caller, signal);
    try {
      const { source } = await this.#findSource(build, request, requests);
      if (source.kind !== 'snapshot') return { vcpus, memoryMib };
      const found = await requests.call('getSnapshot', { params: { id: source.id } });
      return { vcpus: found.vcpus, memoryMib: found.memory_mib };
    } catch (error) {
      if (toE2bAnswer(error, '').status >= 500) throw error;
      return { vcpus, memoryMib };
    }
  }

  async #findSource({ caller: { principal } }: BuildJob, request: BuildRequest, requests: Requests) {
    const isBase = 'image' in request.from && BASE_IMAGE.test(request.from.image);
    const from = 'template' in request.from ? request.from.template : isBase ? 'base' : request.from.image;
    const find = 'template' in request.from || isBase ? findTemplate : findImage;
    return { from, source: await find({ requests, principal }, this.#options.catalogue, from) };
  }

  /** Why a build ends, also one that waits for its turn. */
  endOf({ caller }: Pick<BuildJob, 'caller'>): E2bError | undefined {
    if (!this.#options.isValid(caller.principal))
      return new E2bError(401, 'the key of the build is not valid any more');
    if (this.#options.isDraining()) return new E2bError(503, 'the host of the build is drained; build again');
    return undefined;
  }

  /** Errors of a step are FailedStep. */
  async run(build: BuildJob, request: BuildRequest): Promise<void> {
    const { stop } = build;
    // Also in the midst of a step.
    const check = (): void => {
      const reason = this.endOf(build);
      if (reason !== undefined) stop.abort(reason);
    };
    const timer = setInterval(check, KEY_CHECK_MS).unref();
    try {
      await this.#run(build, request, check);
    } finally {
      clearInterval(timer);
    }
  }

  async #run(build: BuildJob, request: BuildRequest, check: () => void): Promise<void> {
    const { caller, log, stop, place } = build;
    const placed = place === undefined ? caller : { ...caller, place: place.header };
    const requests = this.#as(placed, stop.signal);
    const { from, source } = await atStep('base', () => this.#findSource(build, request, requests));
    log.add(`FROM ${from}`);
    const assertValid = (): void => {
      check();
      stop.signal.throwIfAborted();
    };
    const perform = async (id: string): Promise<void> => {
      const steps = new BuildSteps({
        id,
        requests,
        log,
        defaults: source.kind === 'snapshot' ? source.defaults : undefined,
        findArchive: (hash) => this.#options.findArchive(build, hash),
      });
      await atStep('base', () => this.#prepare(build, requests, { id, source }));
      await atStep('base', () => steps.open(source.kind === 'image'));
      for (const [at, step] of request.steps.entries()) {
        assertValid();
        log.add(`[${at + 1}/${request.steps.length}] ${describeStep(step)}`);
        await atStep(String(at + 1), () => steps.perform(step));
      }
      await atStep('finalize', () => steps.start(request.startCmd, request.readyCmd));
      assertValid();
      await this.#save(build, requests, id, steps.defaults);
    };
    const make = (name: string) =>
      atStep('base', () => this.#makeSandbox(build, requests, { name, source })).finally(() =>
        place?.[Symbol.dispose](),
      );
    await this.#options.sandboxes.using(build.id, make, perform);
  }

  /** A copy has the lifetime of its source. */
  async #prepare(build: BuildJob, requests: Requests, { id, source }: Made): Promise<void> {
    if (source.kind !== 'snapshot') return;
    const body = { timeout_s: lifetimeOf(build), timeout_action: 'delete' } as const;
    await requests.call('updateSandbox', { params: { id }, body });
  }

  /** With a network that reaches the internet, as in E2B, where the host and the key allow it. */
  async #makeSandbox(build: BuildJob, requests: Requests, { name, source }: NamedSource): Promise<string> {
    if (source.kind === 'snapshot') {
      if (build.size.vcpus !== undefined || build.size.memory_mib !== undefined)
        build.log.add('the template has the CPUs and the memory of the one that it begins with', 'warn');
      const fork = { params: { id: source.id }, body: { count: 1, name } };
      const { sandboxes } = await requests.call('forkSnapshot', fork);
      return sandboxes[0]?.id ?? '';
    }
    const from = source.kind === 'image' ? { image: { oci: source.image } } : toProfile(source.profile);
    const own = { ...from, ...build.size, name, timeout_s: lifetimeOf(build), auto_resume: false };
    const make = async (network?: object): Promise<string> =>
      (await requests.call('createSandbox', { body: { ...own, ...(network && { network }) } })).id;
    try {
      return await make({ enabled: true, ...toTargets({}, true) });
    } catch (error) {
      if (!(error instanceof ForbiddenError)) throw error;
      build.log.add(`the build has no network: ${error.message}`, 'warn');
      return await make();
    }
  }

  async #save(build: BuildJob, requests: Requests, id: string, defaults: Defaults): Promise<void> {
    const { template, tags } = build;
    const { records } = this.#options.catalogue;
    const info = await requests.call('getSandbox', { params: { id } });
    const comment = `template ${template.name}`;
    const snapshot = await requests.call('takeSnapshot', { params: { id }, body: { comment } });
    await awaitStored(build, requests, snapshot.id);
    // Another host may have deleted the template meanwhile.
    await this.#options.catalogue.shared?.refresh();
    const made: TemplateBuild = {
      id: build.id,
      snapshotId: snapshot.id,
      createdAtMs: Date.now(),
      tags,
      vcpus: info.vcpus,
      memoryMib: info.memory_mib,
      diskBytes: info.disk_bytes,
      defaults,
    };
    await records.addBuild(template.id, made, mayDo(build.caller.principal, 'delete'));
    await this.#options.sandboxes.removeSuperseded(template.id);
    build.log.add(`saved as ${template.name} with the tags ${tags.join(', ')}`);
  }

  #as(caller: Caller, signal?: AbortSignal): Requests {
    if (this.#rest === undefined) throw new Error('no build can run yet');
    return this.#rest.as(caller, signal);
  }
}

/**
 * With a snapshot store, a build is over when other hosts have it, too: the one before is deleted then. If that fails,
 * the build is this host's alone until the store has it.
 */
async function awaitStored({ log, stop: { signal } }: BuildJob, requests: Requests, id: string) {
  for (
    const endMs = performance.now() + STORE_TIMEOUT_MS;
    ;
    await sleep(STORE_POLL_MS, undefined, { signal })
  ) {
    const { storage, storage_error: problem } = await requests.call('getSnapshot', { params: { id } });
    if (storage === undefined || storage === 'stored') return;
    const reason = performance.now() < endMs ? problem : 'it takes too long';
    if (reason === undefined) continue;
    log.add(`the template is on this host alone, until the snapshot store has it: ${reason}`, 'warn');
    return;
  }
}

/** A key may limit it. Seconds. */
function lifetimeOf({ caller }: BuildJob): number {
  const mostS = policyOf(caller.principal)?.max_timeout_s;
  return Math.min(BUILD_TIMEOUT_MS / 1000 + GRACE_S, mostS ?? Number.POSITIVE_INFINITY);
}

/** Which step failed: its number, or `base` or `finalize`. The SDKs show the line of the program that has it. */
export class FailedStep extends Error {
  override readonly name = 'FailedStep';
  readonly step: string;

  constructor(step: string, message: string, cause: unknown) {
    super(message, { cause });
    this.step = step;
  }
}

async function atStep<T>(step: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isFault = error instanceof StepError || toE2bAnswer(error, '').status < 500;
    throw isFault ? new FailedStep(step, toMessage(error), error) : error;
  }
}

export function toMessage(error: unknown): string {
  if (error instanceof StepError || error instanceof FailedStep) return error.message;
  return toE2bAnswer(error, '').body.message;
}

function toProfile(profile: string | undefined) {
  return profile === undefined ? {} : { profile };
}
