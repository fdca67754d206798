// Which templates a create can copy, and whether a template is still trusted. The more specific the template, the less
// work is left for the copy.
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { ServiceSpec } from '@sandboxd/api';
import type { RootfsSource } from '../images/rootfs-source.ts';
import { causesOf, isAppError } from '../lib/errors.ts';
import { hashService } from './metadata.ts';
import type { SavedGuest } from './saved/saved-guest.ts';
import type { ResolvedSandboxOptions } from './types.ts';

/** An existing or future template: its key, and the options of its guest. */
export type TemplateCandidate = {
  readonly key: string;
  readonly options: ResolvedSandboxOptions;
  /** What runs in it: a service that all of its copies have. */
  readonly ready?: ReadyService;
  /** Absent for one that is made of a create's own guest, and for a generic one. */
  readonly booted?: TemplateCandidate;
};

/** What all templates of a daemon share. */
export type TemplateContext = {
  readonly compatibility: Readonly<Record<string, string>>;
  readonly kernelDigest: string;
  /** Layer size of templates; smaller requests get templates of their own size. */
  readonly diskBytes: number;
};

/** A template's guest can reach no host. */
const NO_NAMES = { allowlist: [] };

/**
 * Templates with the create's root file system, most specific first. Each has another one (`booted`), which is made
 * of the guest that a create boots, without a warm-up, and which it replaces. `agentPath`: the image that the agent
 * runs from; absent when the root file system contains the agent. If the create has a network, the most specific
 * template already has an interface, and the copy only changes its address.
 */
export function templatesInRoot(
  { service, readyPort, publish: _publish, network, ...options }: ResolvedSandboxOptions,
  agentPath: string | undefined,
  context: TemplateContext,
): readonly [CandidateInRoot, ...CandidateInRoot[]] {
  const rootfs = { ...options.rootfs, ...(agentPath !== undefined && { agentPath }) };
  const diskBytes = Math.min(options.diskBytes, context.diskBytes);
  const own = { ...options, rootfs, diskBytes, timeoutS: 0, idle: undefined };
  const ready = toReadyService({ service, readyPort });
  const plain = withBooted(own, ready, context);
  return network === undefined ? [plain] : [withBooted({ ...own, network: NO_NAMES }, ready, context), plain];
}

/** The generic template, which has no root file system and no network, so any create can copy it. */
export function templateWithoutRoot(
  { service: _1, readyPort: _2, publish: _3, network: _4, ...options }: ResolvedSandboxOptions,
  agent: RootfsSource,
  context: TemplateContext,
): TemplateCandidate {
  const own = { ...options, rootfs: agent, diskBytes: context.diskBytes, timeoutS: 0, idle: undefined };
  return { key: templateKey({ ...context, options: own }), options: own };
}

export type ReadyService = {
  readonly spec: ServiceSpec;
  readonly port: number;
  readonly hash: string;
};

/** Undefined unless the service is that of a profile. */
export function toReadyService({
  service: spec,
  readyPort: port,
}: {
  readonly service?: ServiceSpec | undefined;
  readonly readyPort?: number | undefined;
}): ReadyService | undefined {
  return spec === undefined || port === undefined ? undefined : { spec, port, hash: hashService(spec) };
}

export type CandidateInRoot = TemplateCandidate & { readonly booted: TemplateCandidate };

function withBooted(
  options: ResolvedSandboxOptions,
  ready: ReadyService | undefined,
  context: TemplateContext,
): CandidateInRoot {
  const runs = ready && { ready };
  const booted = { key: templateKey({ ...context, options, ...runs, isBooted: true }), options, ...runs };
  return { key: templateKey({ ...context, options, ...runs }), options, ...runs, booted };
}

export type TemplateKeyInput = {
  readonly compatibility: Readonly<Record<string, string>>;
  readonly kernelDigest: string;
  /** Whether it is made of the guest that a create boots. */
  readonly isBooted?: boolean;
  readonly ready?: Pick<ReadyService, 'hash' | 'port'>;
  /** Options of the template's guest. Copies may have larger disks and other allowlists. */
  readonly options: Pick<ResolvedSandboxOptions, 'vcpus' | 'memoryMib' | 'diskBytes' | 'network'> & {
    readonly rootfs: Pick<RootfsSource, 'digest' | 'agentPath'>;
  };
};

/** 16 hexadecimal digits: equal for creates whose guests are identical until first use. */
export function templateKey(input: TemplateKeyInput): string {
  const { compatibility, kernelDigest, options, isBooted = false, ready } = input;
  const facts = [
    Object.entries(compatibility).sort(([a], [b]) => (a < b ? -1 : 1)),
    kernelDigest,
    options.rootfs.digest,
    options.vcpus,
    options.memoryMib,
    options.diskBytes,
    // The file name contains a digest of its content.
    ...(options.rootfs.agentPath === undefined ? [] : [basename(options.rootfs.agentPath)]),
    ...(options.network === undefined ? [] : ['network']),
    ...(isBooted ? ['booted'] : []),
    ...(ready === undefined ? [] : [ready.hash, ready.port]),
  ];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16);
}

/** A template without a successful copy is bad after this many timeouts. */
const MAX_TIMEOUTS = 3;
/** Stages of a start whose outcome depends on the saved state. */
const RESTORE_STAGES: readonly (string | undefined)[] = ['restore', 'agent'];

/** What to do after a copy failed to start. */
export type Verdict = {
  /** The template must not be used again. */
  readonly isBad: boolean;
  /** Whether a cold boot of the same create may succeed at once. */
  readonly isWorthBooting: boolean;
};

const NOT_AT_FAULT: Verdict = { isBad: false, isWorthBooting: false };

export class TemplateTrust {
  readonly #proven = new WeakSet<SavedGuest>();
  readonly #timeouts = new WeakMap<SavedGuest, number>();

  /** Marks the template as proven: a copy started, so its content is good while its files are unchanged. */
  copySucceeded(saved: SavedGuest): void {
    this.#proven.add(saved);
  }

  copyFailed(saved: SavedGuest, error: unknown): Verdict {
    if (!isAppError(error) || error.code === 'exhausted' || error.code === 'cancelled') return NOT_AT_FAULT;
    const { stage } = error.details;
    // It was replaced or evicted between the choice and its use.
    if (saved.leaving.aborted && error.code === 'not_found') return { isBad: false, isWorthBooting: true };
    // Its files changed.
    if (stage === 'verify') return { isBad: true, isWorthBooting: true };
    // A cold boot shows whether the root file system or the generic template is at fault.
    if (stage === 'root' && !this.#proven.has(saved)) return { isBad: false, isWorthBooting: true };
    if (!RESTORE_STAGES.includes(stage) || this.#proven.has(saved)) return NOT_AT_FAULT;
    const isTimeout = causesOf(error).some((cause) => isAppError(cause) && cause.details.isTimeout === true);
    if (!isTimeout) return { isBad: true, isWorthBooting: true };
    const timeouts = (this.#timeouts.get(saved) ?? 0) + 1;
    this.#timeouts.set(saved, timeouts);
    return { isBad: timeouts >= MAX_TIMEOUTS, isWorthBooting: false };
  }
}
