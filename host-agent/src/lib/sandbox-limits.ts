// The daemon's own bounds, within those of the interface.
export type SandboxLimits = {
  readonly vcpus: number;
  readonly memoryMib: number;
  /** Of the writable layer. */
  readonly diskBytes: number;
  /** Sandboxes that may exist at once. */
  readonly sandboxes: number;
  /** Forks of one request. */
  readonly fork: number;
};
