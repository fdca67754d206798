// All errors of the bakery: one class, one stable code per cause.

export type BuilderErrorCode =
  | 'recipe_invalid'
  | 'recipe_unknown'
  | 'agent_missing'
  | 'tool_missing'
  | 'command_failed'
  /** A disk of the host is full, as a program reported. */
  | 'host_disk_full'
  | 'not_root'
  | 'apt_sources_missing'
  | 'npm_runtime_missing'
  | 'profile_not_baked'
  | 'profile_corrupt'
  | 'kernel_package_missing'
  | 'kernel_format'
  | 'kernel_not_prepared'
  | 'module_missing'
  | 'layer_size';

export class BuilderError extends Error {
  readonly code: BuilderErrorCode;

  constructor(code: BuilderErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'BuilderError';
    this.code = code;
  }
}

/** True for Node's system errors with that code, such as ENOENT. */
export function hasErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

export function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
