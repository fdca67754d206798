// Filters of lists of sandboxes, and of the delete of several: all of them must match.
import type { LabelSelector } from '@sandboxd/api';
import { isSameReference } from '../images/index.ts';
import { matchesLabels } from '../lib/labels.ts';
import type { SandboxInfo } from './types.ts';

export type SandboxFilter = {
  readonly labels?: readonly LabelSelector[] | undefined;
  readonly state?: SandboxInfo['state'] | undefined;
  readonly name?: string | undefined;
  readonly profile?: string | undefined;
  /** Reference or digest. */
  readonly image?: string | undefined;
};

export function matchesFilter(
  { labels, state, name, rootfs }: Pick<SandboxInfo, 'labels' | 'state' | 'name' | 'rootfs'>,
  filter: SandboxFilter,
): boolean {
  const { image, profile } = filter;
  const isOfImage = (text: string): boolean =>
    rootfs.kind === 'image' && (rootfs.imageDigest === text || isSameReference(rootfs.name, text));
  return (
    (filter.state === undefined || filter.state === state) &&
    (filter.name === undefined || filter.name === name) &&
    (profile === undefined || (rootfs.kind === 'profile' && rootfs.name === profile)) &&
    (image === undefined || isOfImage(image)) &&
    matchesLabels(labels, filter.labels)
  );
}
