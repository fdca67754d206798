// What a sandbox has of its network: a namespace with a tap, and addresses of its own.

/** JSON-safe. */
export type NetworkSlot = {
  /** Path of a file that is the network namespace. */
  readonly namespace: string;
  /** Name of the tap in it: persistent, up, with virtio headers, for anyone within the namespace to attach to. */
  readonly tap: string;
  /** Of the guest. */
  readonly mac: string;
  readonly gatewayMac: string;
  readonly guestIp: string;
  /** The host as the guest sees it: it answers as its name server, and to nothing else. */
  readonly gateway: string;
  /** Of the host, where its names are answered. */
  readonly resolverIp: string;
  readonly prefixLength: number;
};
