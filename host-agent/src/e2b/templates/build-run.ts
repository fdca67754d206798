// One build: a sandbox gets the steps, is saved with its memory, and is deleted. Unless it succeeds, all of it goes.
// Requests are those of the client: its policy, quotas and tenant hold, and the audit trail has them.
import { ForbiddenError } from '@sandboxd/client';
import type { Logger } from 'pino';
import type { Caller } from '../../http/context.ts';
import { mayDo, OPERATOR, type Principal, policyOf } from '../../keys/index.ts';
import type { Table } from '../../store/store.ts';
import { toTargets } from '../control/network.ts';
import { E2bError, toE2bAnswer } from '../errors.ts';
import type { Requests, Rest } from '../rest.ts';
import type { BuildLog } from './build-log.ts';
import { type BuildRequest, describeStep } from './build-request.ts';
import { type Catalogue, findTemplate, type Source } from './find-template.ts';
import { StepError } from './step-error.ts';
import type { Defaults, Template, TemplateBuild } from './template-records.ts';
import { Workshop } from './workshop.ts';

export const BUILD_TIMEOUT_MS = 60 * 60_000;
/** What the sandbox of a build may live longer, if the daemon ends. */
const GRACE_S = 300;
/** E2B's own image. */
const BASE_IMAGE = /^(?:docker\.io\/)?e2bdev\/base(?::latest)?$/;
const OWN_ADDRESS = 'local';

export type BuildJob = {
  readonly id: string;
  readonly template: Template;
  readonly caller: Caller;
  readonly tags: readonly string[];
  readonly size: { readonly vcpus?: number; readonly memory_mib?: number };
  readonly log: BuildLog;
  readonly stop: AbortController;
};

export type BuildRunnerOptions = {
  readonly catalogue: Catalogue;
  /** Ids of sandboxes of builds, so that the next daemon can remove them. */
  readonly sandboxes: Table<object>;
  readonly findArchive: (build: BuildJob, hash: string) => string;
  readonly isValid: (principal: Principal) => boolean;
  readonly log: Logger;
};

export class BuildRunner {
  readonly #options: BuildRunnerOptions;
  readonly #hidden: Set<string>;
  #rest: Rest | undefined;

  constructor(options: BuildRunnerOptions) {
    this.#options = options;
    this.#hidden = new Set(options.sandboxes.all().map(({ id }) => id));
  }

  /** Removes what an earlier daemon left. */
  async start(rest: Rest): Promise<void> {
    this.#rest = rest;
    await Promise.all([...this.#hidden].map((id) => this.#removeSandbox(id)));
  }

  /** Whether a sandbox is that of a build, which clients do not see. */
  isHidden(id: string): boolean {
    return this.#hidden.has(id);
  }

  /** Errors of a step are FailedStep. */
  async run(build: BuildJob, request: BuildRequest): Promise<void> {
    const { caller, log, stop } = build;
    const requests = this.#as(caller, stop.signal);
    const asker = { requests, principal: caller.principal };
    const isBase = 'image' in request.from && BASE_IMAGE.test(request.from.image);
    const name = 'template' in request.from ? request.from.template : isBase ? 'base' : request.from.image;
    const { source, isImage } = await atStep('base', async () => {
      const found = await findTemplate(asker, this.#options.catalogue, name);
      return { source: found, isImage: found.kind === 'image' };
    });
    log.add(`FROM ${name}`);
    const id = await atStep('base', () => this.#makeSandbox(build, requests, source));
    try {
      const workshop = new Workshop({
        id,
        requests,
        log,
        defaults: source.kind === 'snapshot' ? source.defaults : undefined,
        findArchive: (hash) => this.#options.findArchive(build, hash),
      });
      await atStep('base', () => workshop.open(isImage));
      for (const [at, step] of request.steps.entries()) {
        this.#assertValid(caller.principal);
        log.add(`[${at + 1}/${request.steps.length}] ${describeStep(step)}`);
        await atStep(String(at + 1), () => workshop.perform(step));
      }
      await atStep('finalize', () => workshop.start(request.startCmd, request.readyCmd));
      this.#assertValid(caller.principal);
      await this.#save(build, requests, id, workshop.defaults);
    } finally {
      await this.#removeSandbox(id);
    }
  }

  /** With a network that reaches the internet, as in E2B, where the host and the key allow it. */
  async #makeSandbox(build: BuildJob, requests: Requests, source: Source): Promise<string> {
    const mostS = policyOf(build.caller.principal)?.max_timeout_s;
    const timeoutS = Math.min(BUILD_TIMEOUT_MS / 1000 + GRACE_S, mostS ?? Number.POSITIVE_INFINITY);
    const make = async (network: object | undefined): Promise<string> => {
      if (source.kind === 'snapshot') {
        const { sandboxes } = await requests.call('forkSnapshot', {
          params: { id: source.id },
          body: { count: 1 },
        });
        const made = sandboxes[0]?.id ?? '';
        await this.#hide(made);
        const change = {
          params: { id: made },
          body: { timeout_s: timeoutS, timeout_action: 'delete' },
        } as const;
        await requests.call('updateSandbox', change).catch(async (error: unknown) => {
          await this.#removeSandbox(made);
          throw error;
        });
        return made;
      }
      const from = source.kind === 'image' ? { image: { oci: source.image } } : toProfile(source.profile);
      const { id } = await requests.call('createSandbox', {
        body: {
          ...from,
          ...build.size,
          timeout_s: timeoutS,
          auto_resume: false,
          ...(network && { network }),
        },
      });
      await this.#hide(id);
      return id;
    };
    if (source.kind === 'snapshot') {
      if (build.size.vcpus !== undefined || build.size.memory_mib !== undefined)
        build.log.add('the template has the CPUs and the memory of the one that it begins with', 'warn');
      return await make(undefined);
    }
    try {
      return await make({ enabled: true, ...toTargets({}, true) });
    } catch (error) {
      if (!(error instanceof ForbiddenError)) throw error;
      build.log.add(`the build has no network: ${error.message}`, 'warn');
      return await make(undefined);
    }
  }

  async #save(build: BuildJob, requests: Requests, id: string, defaults: Defaults): Promise<void> {
    const { template, tags } = build;
    const { records } = this.#options.catalogue;
    const info = await requests.call('getSandbox', { params: { id } });
    const comment = `template ${template.name}`;
    const snapshot = await requests.call('takeSnapshot', { params: { id }, body: { comment } });
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
    try {
      await this.removeSnapshots(await records.addBuild(template.id, made), build.caller.principal);
    } catch (error) {
      await this.#deleteSnapshots([snapshot.id]);
      throw error;
    }
    build.log.add(`saved as ${template.name} with the tags ${tags.join(', ')}`);
  }

  /** Those of builds that no tag leads to. They stay as snapshots if the client may not delete any. */
  async removeSnapshots(ids: readonly string[], principal: Principal): Promise<void> {
    if (!mayDo(principal, 'delete')) return;
    await this.#deleteSnapshots(ids);
  }

  async #deleteSnapshots(ids: readonly string[]): Promise<void> {
    const rest = this.#asOperator();
    const deleted = await Promise.allSettled(
      ids.map((id) => rest.call('deleteSnapshot', { params: { id } })),
    );
    for (const each of deleted)
      if (each.status === 'rejected' && each.reason?.status !== 404)
        this.#options.log.warn({ err: each.reason }, 'cannot delete the snapshot of a template');
  }

  async #hide(id: string): Promise<void> {
    this.#hidden.add(id);
    await this.#options.sandboxes.put(id, {});
  }

  async #removeSandbox(id: string): Promise<void> {
    try {
      await this.#asOperator().call('deleteSandbox', { params: { id } });
    } catch (error) {
      // Its lifetime ends it.
      if ((error as { readonly status?: number }).status !== 404) {
        this.#options.log.warn({ err: error, sandbox: id }, 'cannot delete the sandbox of a build');
        return;
      }
    }
    this.#hidden.delete(id);
    await this.#options.sandboxes.remove(id);
  }

  #assertValid(principal: Principal): void {
    if (!this.#options.isValid(principal))
      throw new E2bError(401, 'the key of the build is not valid any more');
  }

  #as(caller: Caller, signal?: AbortSignal): Requests {
    if (this.#rest === undefined) throw new Error('no build can run yet');
    return this.#rest.as(caller, signal);
  }

  #asOperator(): Requests {
    return this.#as({ principal: OPERATOR, address: OWN_ADDRESS });
  }
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
