// What is told of a pull while it goes on.

/** A layer, by the beginning of its digest, and how much of it is here. */
export type LayerProgress = {
  readonly layer: string;
  readonly bytes?: number | undefined;
  readonly totalBytes?: number | undefined;
};

/** A line about each step, for people, and the layer that it is about. */
export type Report = (line: string, layer?: LayerProgress) => void;
