// Progress reports of a pull.

/** A layer (digest prefix) and its bytes on disk; without `layer`, the bytes of all layers. */
export type LayerProgress = {
  readonly layer?: string | undefined;
  readonly bytes?: number | undefined;
  readonly totalBytes?: number | undefined;
};

/** Called with a line for people about each step, and the layer concerned. */
export type Report = ((line: string, layer?: LayerProgress) => void) & {
  /** Whether a client is listening; several requests may share one pull. */
  readonly hasListeners?: () => boolean;
};
