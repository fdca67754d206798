// What clients ask of the network of a sandbox, and get.
import type { NetworkRule } from '@sandboxd/api';
import type { EgressLogMode, NetworkPolicy, Verdict } from '../network/index.ts';
import type { AuthorityInfo } from './authorities.ts';

/** Absent lists stay as they are. */
export type NetworkChange = {
  readonly allowlist?: readonly string[] | undefined;
  readonly rules?: readonly NetworkRule[] | undefined;
  readonly presets?: readonly string[] | undefined;
  readonly log?: EgressLogMode | undefined;
  readonly ifGeneration?: number | undefined;
};

export type NetworkState = NetworkPolicy & {
  readonly generation: number;
  readonly guestIp: string;
  readonly gateway: string;
  /** Of its lineage; absent: no policy has needed one. */
  readonly ca?: AuthorityInfo;
};

export type ChangedNetwork = NetworkState & { readonly closed: number };

export type ExplainedVerdict = Verdict & { readonly generation: number };
