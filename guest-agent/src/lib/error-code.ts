// The name of a system error ('ENOENT'), from Node's or the addon's errors.

export function errorCode(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : '';
}
