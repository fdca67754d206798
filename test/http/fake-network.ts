// What the guests of fake sandboxes may reach, and a record of its changes.
import { EgressPolicy } from '../../host-agent/src/network/index.ts';
import type { SandboxHandle } from '../../host-agent/src/sandboxes/interface.ts';
import type { NetworkChange, NetworkState } from '../../host-agent/src/sandboxes/network-types.ts';

export class FakeNetwork {
  state: NetworkState = {
    generation: 1,
    allowlist: ['a.example'],
    guestIp: '10.0.0.2',
    gateway: '10.0.0.1',
    secrets: [],
  };
  readonly changes: NetworkChange[] = [];

  handle(): Pick<SandboxHandle, 'network' | 'checkNetwork' | 'changeNetwork'> {
    return {
      network: () => this.state,
      checkNetwork: (host, traffic) => ({
        ...new EgressPolicy(this.state).check(host, traffic),
        generation: this.state.generation,
      }),
      changeNetwork: async (change) => {
        this.changes.push(change);
        return { ...this.state, generation: this.state.generation + 1, closed: 1 };
      },
    };
  }
}
