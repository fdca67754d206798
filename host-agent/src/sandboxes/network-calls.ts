// What clients do with the networks and secrets of sandboxes.
import type { Limits, RequestContext } from '../keys/index.ts';
import type { Traffic } from '../network/index.ts';
import { changeNetwork, checkNetwork, type NetworkChangeDeps, networkStateOf } from './network-changes.ts';
import type { ChangedNetwork, ExplainedVerdict, NetworkChange, NetworkState } from './network-types.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import { scopeOfOwner } from './secrets.ts';
import type { Operations } from './sweeps.ts';

export type NetworkCallsDeps = Pick<NetworkChangeDeps, 'presets'> & {
  readonly limits: Pick<Limits, 'admitNetwork' | 'admitSecrets' | 'findForbidden'>;
  readonly context: ResourceContext;
  readonly operations: Operations;
};

/** Calls are as in `SandboxHandle`. */
export class NetworkCalls {
  readonly #deps: NetworkCallsDeps;

  constructor(deps: NetworkCallsDeps) {
    this.#deps = deps;
  }

  show(sandbox: Sandbox): NetworkState {
    return networkStateOf(sandbox, this.#deps.context.secrets);
  }

  check(sandbox: Sandbox, host: string, traffic: Traffic): ExplainedVerdict {
    return checkNetwork(sandbox, host, traffic, this.#deps.context.network);
  }

  async change(sandbox: Sandbox, change: NetworkChange, request: RequestContext): Promise<ChangedNetwork> {
    const { operations, context, limits, presets } = this.#deps;
    operations.signal();
    const scope = scopeOfOwner(sandbox.record.owner);
    const named = Object.values(change.secrets ?? {}).flatMap((each) => each?.use ?? []);
    // A source may be slow, and other changes do not wait for it.
    await context.secrets.refresh(named.map((name) => ({ use: { scope, name } })));
    return operations.trackSave(changeNetwork(sandbox, change, request, { ...context, limits, presets }));
  }

  isAdmitted(...call: Parameters<Limits['findForbidden']>): boolean {
    return this.#deps.limits.findForbidden(...call) === undefined;
  }

  /** Of secrets that are stored. AppError forbidden. */
  admitSecrets(...call: Parameters<Limits['admitSecrets']>): void {
    this.#deps.limits.admitSecrets(...call);
  }
}
