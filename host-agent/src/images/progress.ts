// What is told of a pull while it goes on.

/** A layer, by the beginning of its digest, and how much of it is here; without a layer, how much of all of them. */
export type LayerProgress = {
  readonly layer?: string | undefined;
  readonly bytes?: number | undefined;
  readonly totalBytes?: number | undefined;
};

/** A line about each step, for people, and the layer that it is about. */
export type Report = ((line: string, layer?: LayerProgress) => void) & {
  /** Whether anybody listens now, where the work is one that several may want. */
  readonly isHeard?: () => boolean;
};
