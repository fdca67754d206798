// Patterns of host names: a name, `*.name` for one more label, `**.name` for one or more.

/** Both in lower case and without a dot at the end. */
export function matchesHostPattern(pattern: string, name: string): boolean {
  if (pattern.startsWith('**.')) return isBelow(name, pattern.slice(2));
  if (!pattern.startsWith('*.')) return pattern === name;
  return isBelow(name, pattern.slice(1)) && !name.slice(0, 1 - pattern.length).includes('.');
}

function isBelow(name: string, suffix: string): boolean {
  return name.length > suffix.length && name.endsWith(suffix);
}

/** Whether every name of `pattern` is one of `allowed`: `*.example.com` covers itself and names of one more label. */
export function coversPattern(allowed: string, pattern: string): boolean {
  if (allowed === pattern) return true;
  if (allowed.startsWith('**.')) return pattern.replace(/^\*\*?\./, 'x.').endsWith(allowed.slice(2));
  const [label = '', ...rest] = pattern.split('.');
  return !label.startsWith('*') && allowed === `*.${rest.join('.')}`;
}

/** Patterns of the names that both lists have. */
export function intersectPatterns(one: readonly string[], other: readonly string[]): string[] {
  const shared = one.flatMap((a) =>
    other.flatMap((b) => (coversPattern(a, b) ? [b] : coversPattern(b, a) ? [a] : [])),
  );
  return [...new Set(shared)];
}
