// Which creates can share one template.
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { RootfsSource } from '../images/rootfs-source.ts';
import type { ResolvedSandboxOptions } from './types.ts';

export type TemplateKeyInput = {
  readonly compatibility: Readonly<Record<string, string>>;
  readonly kernelDigest: string;
  /** Of the template's own guest: copies may have larger disks, or all of their own, and others to talk to. */
  readonly options: Pick<ResolvedSandboxOptions, 'vcpus' | 'memoryMib' | 'diskBytes' | 'network'> & {
    readonly rootfs: Pick<RootfsSource, 'digest' | 'agentPath'>;
  };
};

/** 16 hexadecimal digits: equal for creates whose guests are the same until somebody uses them. */
export function templateKey(input: TemplateKeyInput): string {
  const { compatibility, kernelDigest, options } = input;
  const facts = [
    Object.entries(compatibility).sort(([a], [b]) => (a < b ? -1 : 1)),
    kernelDigest,
    options.rootfs.digest,
    options.vcpus,
    options.memoryMib,
    options.diskBytes,
    // Named by what is in it.
    ...(options.rootfs.agentPath === undefined ? [] : [basename(options.rootfs.agentPath)]),
    ...(options.network === undefined ? [] : ['network']),
  ];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16);
}
