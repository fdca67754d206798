// Where the hosts of a fleet share images, as one of them uses it: names lead to files with descriptions.

export type FoundImage = {
  readonly id: string;
  readonly description: unknown;
  readonly download: (path: string, signal: AbortSignal, onProgress: () => void) => Promise<void>;
};

export type ListedImage = {
  readonly id: string;
  readonly description: unknown;
  readonly names: readonly string[];
};

export interface ImageDepot {
  find(name: string, signal: AbortSignal): Promise<FoundImage | undefined>;
  findImage(id: string, signal: AbortSignal): Promise<FoundImage | undefined>;
  /**
   * `maxBytes`: of all images there; 0: no limit. `owner`: the tenant, or the key without one, whose share it takes.
   * AppError forbidden if they would take more, or if the owner has its share.
   */
  ensure(
    image: { readonly id: string; readonly description: unknown; readonly path: string },
    options: { readonly isAnew: boolean; readonly maxBytes: number; readonly owner?: string | undefined },
    signal: AbortSignal,
  ): Promise<void>;
  /** AppError forbidden if there are too many names, or too many of the owner. */
  name(
    name: string,
    to: { readonly id: string; readonly atMs: number; readonly owner?: string | undefined },
    signal: AbortSignal,
  ): Promise<void>;
  withdraw(name: string, id: string | undefined, atMs: number, signal: AbortSignal): Promise<boolean>;
  /** It leads nowhere if it leads to another image since an earlier time. */
  unname(name: string, id: string, atMs: number, signal: AbortSignal): Promise<void>;
  /** Unless it was sent since that time. False: it was not there. */
  withdrawImage(id: string, atMs: number, signal: AbortSignal): Promise<boolean>;
  /** All names that lead to it since that time or earlier. */
  withdrawNames(id: string, atMs: number, signal: AbortSignal): Promise<void>;
  list(signal: AbortSignal): Promise<readonly ListedImage[]>;
  /** What images take there, as of the last one that was to be sent. */
  usedBytes(): number;
}
