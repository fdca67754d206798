// The network of one sandbox: a namespace with a tap, and the sandbox's addresses.

/** JSON-safe. */
export type NetworkSlot = {
  /** Path of the bind-mounted network namespace. */
  readonly namespace: string;
  /**
   * Name of the tap in the namespace: persistent, up, with virtio headers; any process in the namespace can attach to
   * it.
   */
  readonly tap: string;
  /** The guest's MAC address. */
  readonly mac: string;
  readonly gatewayMac: string;
  readonly guestIp: string;
  /** The host's address as the guest sees it. It answers DNS queries and nothing else. */
  readonly gateway: string;
  /** Host address that the sandbox's resolver listens on. */
  readonly resolverIp: string;
  readonly prefixLength: number;
};
