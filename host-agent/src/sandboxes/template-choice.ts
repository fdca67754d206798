// Which templates a create can copy: the more specific the template, the less work is left for the copy.
import type { RootfsSource } from '../images/rootfs-source.ts';
import { templateKey } from './template-key.ts';
import type { ResolvedSandboxOptions } from './types.ts';

/** An existing or future template: its key, and the options of its guest. */
export type TemplateCandidate = { readonly key: string; readonly options: ResolvedSandboxOptions };

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
 * Templates with the create's root file system, most specific first. `agentPath`: the image that the agent runs from;
 * absent when the root file system contains the agent. If the create has a network, the most specific template
 * already has an interface, and the copy only changes its address.
 */
export function templatesInRoot(
  { service: _service, publish: _publish, network, ...options }: ResolvedSandboxOptions,
  agentPath: string | undefined,
  context: TemplateContext,
): readonly [TemplateCandidate, ...TemplateCandidate[]] {
  const rootfs = { ...options.rootfs, ...(agentPath !== undefined && { agentPath }) };
  const diskBytes = Math.min(options.diskBytes, context.diskBytes);
  const own = { ...options, rootfs, diskBytes, timeoutS: 0, idle: undefined };
  const plain = toCandidate(own, context);
  return network === undefined ? [plain] : [toCandidate({ ...own, network: NO_NAMES }, context), plain];
}

/** The generic template, which has no root file system and no network, so any create can copy it. */
export function templateWithoutRoot(
  { service: _service, publish: _publish, network: _network, ...options }: ResolvedSandboxOptions,
  agent: RootfsSource,
  context: TemplateContext,
): TemplateCandidate {
  return toCandidate(
    { ...options, rootfs: agent, diskBytes: context.diskBytes, timeoutS: 0, idle: undefined },
    context,
  );
}

function toCandidate(options: ResolvedSandboxOptions, context: TemplateContext): TemplateCandidate {
  return { key: templateKey({ ...context, options }), options };
}
