// Ports of the agent's modules in vsock tests, and their permitted peers.

/** VMADDR_CID_LOCAL: the guest itself, by the loopback transport. */
export const LOCAL_CID = 1;
export const HOST_CID = 2;
export const PORT = 5001;
/** The same, for the host only. */
export const STRICT_PORT = 5002;
