// Container images, and the profiles beside them.
import { join } from 'node:path';
import { Converter, type ConverterOptions } from './converter.ts';
import { ImageFiles } from './files.ts';
import { Images, type ImagesOptions } from './images.ts';

export type { ConverterOptions } from './converter.ts';
export { Images, type PullMode } from './images.ts';
export type { LayerProgress, Report } from './progress.ts';
export type { ImageInfo, ImageRecord } from './record.ts';
export { RootfsFinder, toUnknownRootfs } from './rootfs-source.ts';

export type OpenImagesOptions = Omit<ImagesOptions, 'files' | 'converter' | 'maxArchiveBytes'> & {
  readonly dataDir: string;
  readonly converter: ConverterOptions;
};

/** As much as all layers of an image may unpack to. */
const MAX_ARCHIVE_BYTES = 64 * 2 ** 30;

export async function openImages({ dataDir, converter, ...options }: OpenImagesOptions): Promise<Images> {
  const files = await ImageFiles.open(join(dataDir, 'images'));
  const images = new Images({
    ...options,
    files,
    converter: new Converter(converter),
    maxArchiveBytes: MAX_ARCHIVE_BYTES,
  });
  await images.start();
  return images;
}
