// The progress of a pull: its last step, and its layers.
import type { PullProgress } from '@sandboxd/client';

export type Layer = { readonly id: string; readonly bytes: number; readonly totalBytes: number };
export type Progress = { readonly text: string; readonly layers: readonly Layer[] };

export const EMPTY_PROGRESS: Progress = { text: 'waiting for the daemon', layers: [] };

/** A step without a layer is about the whole image. */
export function withStep({ layers }: Progress, step: PullProgress): Progress {
  const { text, layer: id, bytes = 0, totalBytes = 0 } = step;
  if (id === undefined) return { text, layers };
  const layer = { id, bytes, totalBytes };
  const isKnown = layers.some((each) => each.id === id);
  return {
    text,
    layers: isKnown ? layers.map((each) => (each.id === id ? layer : each)) : [...layers, layer],
  };
}
