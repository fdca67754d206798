// A fleet of hosts: the node agent of each, and the gateway before them.
export type { Doors } from './catalogue.ts';
export { CLIENT_HEADER, isQuestion, QUESTION_HEADER, readClientHeader } from './client-header.ts';
export { E2bDoor, type E2bDoorOptions } from './front/e2b-door.ts';
export { FleetFront } from './front/front.ts';
export { HostConnections } from './front/host-connections.ts';
export { type HostPortsOptions, openHostPorts } from './front/host-ports.ts';
export { ParkedPorts, type ParkedPortsDeps } from './front/parked-ports.ts';
export {
  askCordon,
  type CordonRecord,
  CordonRequests,
  forgetCordon,
  readCordon,
} from './host/cordon-requests.ts';
export type { PlaceRecord } from './host/decide.ts';
export { ForeignPods } from './host/foreign-pods.ts';
export { type IdentityRecord, NodeIdentity } from './host/identity.ts';
export { type LocalSandboxes, NodeAgent } from './host/node-agent.ts';
export type { PodCreate, PodRecord, PodSandboxes } from './host/pod-sandboxes.ts';
export { type KeysOfRecord, SharedKeys } from './host/shared-keys.ts';
export { KubeClient } from './kube/client.ts';
export { isForBootstrap, readKubeconfig } from './kube/kubeconfig.ts';
export { KubernetesCatalogue } from './kubernetes/catalogue.ts';
export { FleetKeys } from './kubernetes/fleet-keys.ts';
export { toImageHolding, toSnapshotHolding } from './kubernetes/holdings.ts';
export type { Readiness } from './kubernetes/pod-wish.ts';
export { FleetSeal } from './seal.ts';
