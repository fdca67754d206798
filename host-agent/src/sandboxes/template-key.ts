// Which creates can share one template.
import { createHash } from 'node:crypto';
import type { RootfsSource } from '../images/rootfs-source.ts';
import type { ResolvedSandboxOptions } from './types.ts';

export type TemplateKeyInput = {
  readonly compatibility: Readonly<Record<string, string>>;
  readonly kernelDigest: string;
  readonly options: Pick<ResolvedSandboxOptions, 'vcpus' | 'memoryMib'> & {
    readonly rootfs: Pick<RootfsSource, 'digest'>;
  };
  /** Size of the layer the template is made with; larger ones are grown from it. */
  readonly diskBytes: number;
};

/** 16 hexadecimal digits: equal for creates whose guests are the same until somebody uses them. */
export function templateKey(input: TemplateKeyInput): string {
  const { compatibility, kernelDigest, options, diskBytes } = input;
  const facts = [
    Object.entries(compatibility).sort(([a], [b]) => (a < b ? -1 : 1)),
    kernelDigest,
    options.rootfs.digest,
    options.vcpus,
    options.memoryMib,
    diskBytes,
  ];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16);
}
