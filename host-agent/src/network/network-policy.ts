// What clients choose for a network, and what is stored of it.
import type { NetworkRule } from '@sandboxd/api';
import type { EgressLogMode } from './egress-log.ts';

export type NetworkPolicy = {
  /** Normalized names: their addresses are open on all ports but those of the web, which are bound to the name. */
  readonly allowlist: readonly string[];
  readonly rules?: readonly NetworkRule[] | undefined;
  /** With the rules that each had when it was chosen. */
  readonly presets?: readonly AppliedPreset[] | undefined;
  /** Which records the egress log keeps; absent: all. */
  readonly log?: EgressLogMode | undefined;
};

export type AppliedPreset = { readonly name: string; readonly rules: readonly NetworkRule[] };

/** What clients can name. */
export interface NamedPresets {
  /** With the rules that they have now. AppError invalid_argument for an unknown one, forbidden for one that is off. */
  apply(names: readonly string[]): AppliedPreset[];
}
