// Which templates a create can be a copy of: the nearer one is to what is wanted, the less is left to be done in the copy.
import type { RootfsSource } from '../images/rootfs-source.ts';
import { templateKey } from './template-key.ts';
import type { ResolvedSandboxOptions } from './types.ts';

/** A template that there is or shall be: its name, and what its guest is. */
export type TemplateCandidate = { readonly key: string; readonly options: ResolvedSandboxOptions };

/** What all templates of a daemon have in common. */
export type TemplateContext = {
  readonly compatibility: Readonly<Record<string, string>>;
  readonly kernelDigest: string;
  /** Layer size of templates; smaller requests get templates of their own size. */
  readonly diskBytes: number;
};

/** Nobody is reached from a template. */
const NO_NAMES = { allowlist: [] };

/**
 * Those in the create's root, the nearest first. `agentPath`: the image that its agent runs from; absent: the root has it.
 * Where a network is wanted the nearest has its interface already: what is left to be done is another address.
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

/** The one of every root filesystem, disk and network: its guest has none yet. */
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
