// How commands reach the cluster of a fleet: the same flags as the gateway.
import { type Flags, type Input, UsageError } from '@sandboxd/api/command-line';
import { FleetSeal, KubeClient, readKubeconfig } from '../fleet/index.ts';

export const FLEET_FLAGS: Flags = {
  kubeconfig: { type: 'string', placeholder: 'path', help: 'the Kubernetes cluster of the fleet' },
  'fleet-secret-file': {
    type: 'string',
    placeholder: 'path',
    help: 'file with the secret that gateways and hosts of the fleet share',
  },
  'fleet-namespace': {
    type: 'string',
    placeholder: 'name',
    help: 'namespace of sandboxes without a tenant, as the hosts have it (sandboxd)',
  },
};

export type FleetAccess = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly namespace: string;
};

/** The client is to be closed. Throws UsageError, and AppError for files that cannot be used. */
export function openFleetAccess(input: Input): FleetAccess {
  const [kubeconfig, secret] = [required(input, 'kubeconfig'), required(input, 'fleet-secret-file')];
  const seal = FleetSeal.read(secret);
  const namespace = input.text('fleet-namespace') ?? 'sandboxd';
  return { client: new KubeClient(readKubeconfig(kubeconfig)), seal, namespace };
}

function required(input: Input, flag: string): string {
  const value = input.text(flag);
  if (value === undefined) throw new UsageError(`--${flag} is missing`);
  return value;
}
