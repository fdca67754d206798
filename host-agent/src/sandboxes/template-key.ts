// Template keys: creates with the same key can share one template.
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { RootfsSource } from '../images/rootfs-source.ts';
import type { ResolvedSandboxOptions } from './types.ts';

export type TemplateKeyInput = {
  readonly compatibility: Readonly<Record<string, string>>;
  readonly kernelDigest: string;
  /** Options of the template's guest. Copies may have larger disks and other allowlists. */
  readonly options: Pick<ResolvedSandboxOptions, 'vcpus' | 'memoryMib' | 'diskBytes' | 'network'> & {
    readonly rootfs: Pick<RootfsSource, 'digest' | 'agentPath'>;
  };
};

/** 16 hexadecimal digits: equal for creates whose guests are identical until first use. */
export function templateKey(input: TemplateKeyInput): string {
  const { compatibility, kernelDigest, options } = input;
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
  ];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16);
}
