// A store of images that does what a test says: one image, pulls in two layers.
import type { ImageInfo, Images, Report } from '../../host-agent/src/images/index.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';

export const IMAGE: ImageInfo = {
  digest: `sha256:${'1'.repeat(64)}`,
  sourceRef: 'nginx:alpine',
  refs: ['nginx:alpine'],
  config: {
    entrypoint: ['/entry'],
    cmd: ['serve'],
    env: { SECRET: 'of the image' },
    user: 'web',
    workdir: '/srv',
    stopSignal: '',
    exposedPorts: ['80/tcp'],
    labels: { a: 'b' },
  },
  labels: {},
  contentBytes: 1,
  sizeBytes: 2,
  entries: 3,
  convertMode: 'erofs',
  convertedAtMs: 4,
};

export const LAYERS = ['a60222455a7d', '64f74f2e4219'] as const;

export class FakeImages {
  readonly asked: unknown[][] = [];
  labels: Readonly<Record<string, string>> = {};
  /** What a pull does behind its first steps. */
  onPull: (report: Report, signal: AbortSignal | undefined) => Promise<void> = async () => undefined;

  /** What a bucket has beside it, and why it may lack some. */
  remote: readonly ImageInfo[] = [];
  problem: string | undefined;

  readonly store: Pick<Images, 'list' | 'get' | 'pull' | 'import' | 'relabel' | 'delete'> & {
    readonly shared: Pick<NonNullable<Images['shared']>, 'listWith'>;
  } = {
    shared: {
      listWith: async (own) => ({
        images: [
          ...own.map((image) => ({ ...image, storage: 'local' as const })),
          ...this.remote.map((image) => ({ ...image, storage: 'remote' as const })),
        ],
        ...(this.problem !== undefined && { problem: this.problem }),
      }),
    },
    list: () => [{ ...IMAGE, labels: this.labels }],
    get: () => IMAGE,
    pull: async (ref, mode, { onProgress = () => undefined, signal } = {}) => {
      this.asked.push(['pull', ref, mode]);
      onProgress(`pulling ${ref}`);
      if (ref.startsWith('no')) throw new AppError('upstream', `cannot pull ${ref}: manifest unknown`);
      for (const layer of LAYERS) onProgress(`fetching layer ${layer}`, { layer });
      for (const bytes of [2 ** 20, 2 ** 21])
        onProgress(`fetching layer ${LAYERS[0]}`, { layer: LAYERS[0], bytes, totalBytes: 2 ** 21 });
      onProgress('fetching layers', { bytes: 2 ** 21, totalBytes: 2 ** 22 });
      await this.onPull(onProgress, signal);
      onProgress('converting 2 layers');
      return IMAGE;
    },
    import: async (chunks, tag) => {
      this.asked.push(['import', tag]);
      for await (const _ of chunks);
      return IMAGE;
    },
    relabel: async (_ref, change) => {
      this.labels = change(this.labels);
      return { ...IMAGE, labels: this.labels };
    },
    delete: async (ref) => void this.asked.push(['delete', ref]),
  };
}
