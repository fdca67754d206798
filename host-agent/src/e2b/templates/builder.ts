// The builds of templates: which wait, which run, and how they ended. They end with the daemon, and the next one
// removes what they left.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Caller } from '../../http/context.ts';
import type { Placement } from '../../http/placement.ts';
import { ownerOf, type Principal, sharerOf, tenantOf } from '../../keys/index.ts';
import type { Store } from '../../store/store.ts';
import { E2bError, toE2bAnswer } from '../errors.ts';
import type { Rest } from '../rest.ts';
import { keyIdOf } from '../sandbox-records.ts';
import { BuildLog, type BuildRequest } from './build-request.ts';
import {
  BUILD_TIMEOUT_MS,
  type BuildJob,
  BuildRunner,
  FailedStep,
  type HeldPlace,
  KEY_CHECK_MS,
  toMessage,
} from './build-run.ts';
import { BuildSandboxes } from './build-sandboxes.ts';
import type { Catalogue } from './find-template.ts';
import { Uploads } from './uploads.ts';

const MAX_RUNNING = 4;
const MAX_RUNNING_OF_EACH = 2;
/** That are not finished. */
const MAX_PENDING = 100;
const MAX_PENDING_OF_EACH = 20;
/** With those whose log can still be read. */
const MAX_KNOWN = 150;
const MAX_KNOWN_OF_EACH = 30;
/** From the request of a build to its start, for uploads. */
const START_TIMEOUT_MS = 60 * 60_000;

/** The next daemon removes what takes longer. */
const STOP_TIMEOUT_MS = 10_000;

export type BuildStatus = 'waiting' | 'building' | 'ready' | 'error';

export type Build = BuildJob & {
  status: BuildStatus;
  reason: { readonly message: string; readonly step?: string } | undefined;
  request: BuildRequest | undefined;
  place: HeldPlace | undefined;
  timer: NodeJS.Timeout;
};

export type BuilderOptions = {
  readonly store: Store;
  readonly dataDir: string;
  readonly catalogue: Catalogue;
  /** Whether the key of a client may still be used. */
  readonly isValid: (principal: Principal) => boolean;
  readonly isDraining: () => boolean;
  readonly placement: Placement;
  readonly log: Logger;
};

export class Builder {
  readonly uploads: Uploads;
  readonly #runner: BuildRunner;
  readonly #sandboxes: BuildSandboxes;
  readonly #log: Logger;
  readonly #catalogue: Catalogue;
  readonly #placement: Placement;
  readonly #builds = new Map<string, Build>();
  readonly #running = new Map<Build, Promise<void>>();
  #isClosed = false;

  constructor({ store, dataDir, catalogue, isValid, isDraining, placement, log }: BuilderOptions) {
    this.#log = log;
    this.#catalogue = catalogue;
    this.#placement = placement;
    this.uploads = new Uploads(dataDir);
    this.#sandboxes = new BuildSandboxes({
      table: store.table('e2b_builds'),
      records: catalogue.records,
      shared: catalogue.shared,
      log,
    });
    this.#runner = new BuildRunner({
      catalogue,
      sandboxes: this.#sandboxes,
      findArchive: ({ template, caller }, hash) =>
        this.uploads.find(this.scopeOf(template.id, caller.principal), hash),
      isValid,
      isDraining,
    });
  }

  /** Removes what an earlier daemon left. */
  async start(rest: Rest): Promise<void> {
    await this.uploads.clear();
    await this.#sandboxes.start(rest);
    this.#runner.start(rest);
  }

  isHidden(id: string): boolean {
    return this.#sandboxes.isHidden(id);
  }

  /** Deletes the snapshots of a template that no tag leads to, on this host or in the store. Never rejects. */
  async removeSuperseded(templateId: string): Promise<void> {
    await this.#sandboxes.removeSuperseded(templateId);
  }

  /** Of a template that another host has deleted. Never rejects. */
  async deleteSnapshots(ids: readonly string[]): Promise<void> {
    await this.#sandboxes.deleteSnapshots(ids);
  }

  /** Of the template with this name in the client's own tenant. E2bError 403, 429. */
  request(name: string, caller: Caller, about: Pick<Build, 'tags' | 'size'>): Build {
    const sharer = sharerOfCaller(caller);
    const pending = [...this.#builds.values()].filter(isPending);
    const own = pending.filter((each) => sharerOfCaller(each.caller) === sharer);
    if (pending.length >= MAX_PENDING || own.length >= MAX_PENDING_OF_EACH)
      throw new E2bError(429, 'too many builds are not finished; wait for them, or delete their templates');
    const template = this.#catalogue.records.plan(caller.principal, name);
    const stop = new AbortController();
    const expire = (): void => this.#cancel(build, 'the build was not started in time');
    const build: Build = {
      ...about,
      id: randomUUID(),
      template,
      caller,
      log: new BuildLog(),
      status: 'waiting',
      reason: undefined,
      request: undefined,
      place: undefined,
      stop,
      timer: setTimeout(expire, START_TIMEOUT_MS).unref(),
    };
    this.#builds.set(build.id, build);
    this.#forget(sharer);
    return build;
  }

  /** Those of the same client go first, so that it cannot push out those of others. */
  #forget(sharer: string | undefined): void {
    const own = [...this.#builds.values()].filter((each) => sharerOfCaller(each.caller) === sharer);
    const all = [...this.#builds.values()];
    const ended = [
      ...own.filter((each) => !isPending(each)).slice(0, Math.max(0, own.length - MAX_KNOWN_OF_EACH)),
      ...all.filter((each) => !isPending(each)).slice(0, Math.max(0, all.length - MAX_KNOWN)),
    ];
    for (const { id, template } of ended) {
      this.#builds.delete(id);
      const isKnown = [...this.#builds.values()].some((each) => each.template.id === template.id);
      if (!isKnown) this.#catalogue.records.drop(template.id);
    }
  }

  find(templateId: string, buildId: string): Build | undefined {
    const build = this.#builds.get(buildId);
    return build?.template.id === templateId ? build : undefined;
  }

  /** Those of a template that this host knows more of than that they were made. */
  buildsOf(templateId: string): readonly { readonly id: string; readonly isOver: boolean }[] {
    const own = [...this.#builds.values()].filter(({ template }) => template.id === templateId);
    return own.map((each) => ({ id: each.id, isOver: !isPending(each) }));
  }

  /** Whose files of a template: another key could replace those that it has not seen. */
  scopeOf(templateId: string, principal: Principal): string {
    return `${templateId}-${keyIdOf(principal)}`;
  }

  /** Whether a build that the client has requested waits for files. */
  awaitsFiles(templateId: string, principal: Principal): boolean {
    const scope = this.scopeOf(templateId, principal);
    return [...this.#builds.values()].some(
      (each) => this.#scopeOf(each) === scope && each.status === 'waiting' && each.request === undefined,
    );
  }

  /** E2bError 409 if it was started before. */
  assertNew(build: Build): void {
    if (build.status !== 'waiting' || build.request !== undefined)
      throw new E2bError(409, `the build ${build.id} was started already`);
  }

  /** Of its sandbox, in a fleet; undefined: a daemon of its own needs no place. */
  async sizeOfPlace(build: Build, request: BuildRequest, signal: AbortSignal) {
    return this.#placement.needsPlace ? await this.#runner.sizeOf(build, request, signal) : undefined;
  }

  /** `place`: header of a gateway. E2bError 409 as `assertNew`; AppError as `Placement.hold`. */
  begin(build: Build, request: BuildRequest, place: string | undefined): void {
    this.assertNew(build);
    if (this.#placement.needsPlace) {
      const tenant = tenantOf(build.caller.principal);
      const held = this.#placement.hold({ header: place, tenant, count: 1 });
      build.place = { header: place, [Symbol.dispose]: () => held[Symbol.dispose]() };
    }
    clearTimeout(build.timer);
    build.request = request;
    const check = (): void => {
      const reason = this.#runner.endOf(build);
      if (reason !== undefined) this.#cancel(build, reason);
    };
    build.timer = setInterval(check, KEY_CHECK_MS).unref();
    this.#startNext();
  }

  /** Ends the builds of a template that is deleted. */
  cancelAll(templateId: string): void {
    for (const build of this.#builds.values())
      if (build.template.id === templateId) this.#cancel(build, 'the template was deleted');
  }

  /** Ends all builds, and removes what they have made. */
  async stop(): Promise<void> {
    const running = [...this.#running.values()];
    this.close();
    await Promise.race([Promise.all(running), sleep(STOP_TIMEOUT_MS, undefined, { ref: false })]);
    await this.uploads.clear();
  }

  close(): void {
    this.#isClosed = true;
    for (const build of this.#builds.values()) this.#cancel(build, 'the daemon stops');
  }

  #scopeOf({ template, caller }: Build): string {
    return this.scopeOf(template.id, caller.principal);
  }

  #cancel(build: Build, why: string | E2bError): void {
    if (!isPending(build)) return;
    const reason = typeof why === 'string' ? new E2bError(409, why) : why;
    build.stop.abort(reason);
    if (!this.#running.has(build)) this.#finish(build, reason);
  }

  #startNext(): void {
    for (const build of this.#builds.values()) {
      if (this.#running.size >= MAX_RUNNING || this.#isClosed) return;
      if (build.status !== 'waiting' || build.request === undefined) continue;
      const sharer = sharerOfCaller(build.caller);
      const own = [...this.#running.keys()].filter((each) => sharerOfCaller(each.caller) === sharer);
      if (own.length >= MAX_RUNNING_OF_EACH) continue;
      build.status = 'building';
      clearTimeout(build.timer);
      const late = (): void => build.stop.abort(new E2bError(504, 'the build took too long'));
      build.timer = setTimeout(late, BUILD_TIMEOUT_MS).unref();
      const work = this.#runner
        .run(build, build.request)
        .then(
          () => this.#finish(build, undefined),
          (error: unknown) =>
            this.#finish(build, build.stop.signal.aborted ? build.stop.signal.reason : error),
        )
        .finally(() => this.#startNext());
      this.#running.set(build, work);
    }
  }

  #finish(build: Build, error: unknown): void {
    clearTimeout(build.timer);
    this.#running.delete(build);
    build.request = undefined;
    build.place?.[Symbol.dispose]();
    if (error === undefined) build.status = 'ready';
    else {
      const step = error instanceof FailedStep ? error.step : undefined;
      const message = toMessage(error);
      build.reason = { message, ...(step !== undefined && { step }) };
      build.log.add(message, 'error', step);
      build.status = 'error';
      if (!(error instanceof FailedStep) && toE2bAnswer(error, '').status === 500)
        this.#log.warn({ err: error, build: build.id }, 'a build of a template failed');
    }
    const scope = this.#scopeOf(build);
    if ([...this.#builds.values()].some((each) => this.#scopeOf(each) === scope && isPending(each))) return;
    this.uploads
      .remove(scope)
      .catch((err: unknown) => this.#log.warn({ err }, 'cannot remove uploaded files of a build'));
  }
}

function isPending({ status }: Build): boolean {
  return status === 'waiting' || status === 'building';
}

function sharerOfCaller({ principal }: Caller): string | undefined {
  return sharerOf(ownerOf(principal));
}
