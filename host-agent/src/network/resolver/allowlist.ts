// Names of DNS: their normal form, and the patterns of allowlists that they match.

/** Normal form for comparisons: lower case, no trailing dot. */
export function normalizeName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

/** A valid label: letters, digits, dashes and underscores. */
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/**
 * An allowlist of normalized patterns: names, `*.name`, which matches exactly one additional label, and `**.name`,
 * which matches one or more.
 */
export class Allowlist {
  readonly #names: ReadonlySet<string>;

  constructor(patterns: readonly string[]) {
    this.#names = new Set(patterns);
  }

  /** `name` is normalized. */
  allows(name: string): boolean {
    return this.find(name) !== undefined;
  }

  /** The most specific pattern that matches; undefined if none does. */
  find(name: string): string | undefined {
    return patternsOf(name).find((pattern) => this.#names.has(pattern));
  }

  /**
   * Whether an allowed name is below `name` (normalized). Such a name exists (RFC 8020), even if it is not allowed
   * itself.
   */
  isAboveAllowed(name: string): boolean {
    const end = `.${name}`;
    for (const pattern of this.#names) if (pattern.endsWith(end)) return true;
    return false;
  }
}

/** All patterns that match a normalized name, the most specific first; none if it is not a name. */
export function patternsOf(name: string): string[] {
  if (!isName(name)) return [];
  const dot = name.indexOf('.');
  const patterns = [name, `*${name.slice(dot)}`];
  for (let at = dot; at >= 0; at = name.indexOf('.', at + 1)) patterns.push(`**${name.slice(at)}`);
  return patterns;
}

const MAX_NAME_CHARS = 253;

/** Whether it is a name of two or more valid labels. */
export function isName(name: string): boolean {
  return (
    name.length <= MAX_NAME_CHARS && name.includes('.') && name.split('.').every((label) => LABEL.test(label))
  );
}
