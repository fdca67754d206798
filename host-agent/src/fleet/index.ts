// A fleet of hosts: the node agent of each, and the gateway before them.
export { FleetFront } from './front/front.ts';
export { HostConnections } from './front/host-connections.ts';
export type { PlaceRecord } from './host/decide.ts';
export { type IdentityRecord, NodeIdentity } from './host/identity.ts';
export { type LocalSandboxes, NodeAgent } from './host/node-agent.ts';
export { KubeClient } from './kube/client.ts';
export { isForBootstrap, readKubeconfig } from './kube/kubeconfig.ts';
export { KubernetesCatalogue } from './kubernetes/catalogue.ts';
export { toImageHolding, toSnapshotHolding } from './kubernetes/holdings.ts';
export { FleetSeal } from './seal.ts';
