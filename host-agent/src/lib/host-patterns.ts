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
