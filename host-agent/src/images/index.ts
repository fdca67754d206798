// Container images and rootfs profiles.
import { join } from 'node:path';
import type { Table } from '../store/store.ts';
import { Converter, type ConverterOptions } from './converter.ts';
import { ImageFiles } from './files.ts';
import { Images, type ImagesOptions } from './images.ts';
import type { ImageDepot } from './shared-depot.ts';
import { SharedImages } from './shared-images.ts';
import type { Withdrawal } from './shared-queue.ts';

export type { ConverterOptions } from './converter.ts';
export type { LayerProgress, Report } from './fetch/download-progress.ts';
export { Images, type PullMode } from './images.ts';
export type { ImageInfo, ImageRecord } from './record.ts';
export { isSameReference } from './reference.ts';
export {
  baseEnvironment,
  type FindOptions,
  type FoundRootfs,
  RootfsFinder,
  toUnknownRootfs,
} from './rootfs-source.ts';
export type { ImageDepot } from './shared-depot.ts';
export type { ListedImages } from './shared-images.ts';
export type { Withdrawal } from './shared-queue.ts';

export type OpenImagesOptions = Omit<
  ImagesOptions,
  'files' | 'converter' | 'shared' | keyof typeof LIMITS
> & {
  readonly dataDir: string;
  readonly converter: ConverterOptions;
  /** Where the hosts of a fleet share images, and names that are still to be withdrawn there. */
  readonly sharing?:
    | {
        readonly depot: ImageDepot;
        readonly withdrawals: Table<Withdrawal>;
        readonly maxBytes: number;
        readonly retryMs?: number;
      }
    | undefined;
} & Partial<typeof LIMITS>;

const LIMITS = {
  /** The limit for all decompressed layers of an image. */
  maxBlobBytes: 64 * 2 ** 30,
  pullIdleMs: 120_000,
  pullPauseMs: 1000,
  sharedIdleMs: 10_000,
};

export async function openImages({
  dataDir,
  converter,
  sharing,
  ...options
}: OpenImagesOptions): Promise<Images> {
  const files = await ImageFiles.open(join(dataDir, 'images'));
  const { records, log, sharedIdleMs: idleMs = LIMITS.sharedIdleMs } = options;
  const shared = sharing && new SharedImages({ ...sharing, files, records, idleMs, log });
  const images = new Images({
    ...LIMITS,
    ...options,
    shared,
    files,
    converter: new Converter(converter),
  });
  await images.start();
  shared?.start();
  return images;
}
