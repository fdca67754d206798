// Matches names against an allowlist.

/** Normal form for comparisons: lower case, no trailing dot. */
export function normalizeName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

/** A valid label: letters, digits, dashes and underscores. */
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/** An allowlist of normalized patterns: names, and `*.name`, which matches exactly one additional label. */
export class Allowlist {
  readonly #names: ReadonlySet<string>;

  constructor(patterns: readonly string[]) {
    this.#names = new Set(patterns);
  }

  /** `name` is normalized. */
  allows(name: string): boolean {
    const dot = name.indexOf('.');
    if (dot < 0 || !name.split('.').every((label) => LABEL.test(label))) return false;
    return this.#names.has(name) || this.#names.has(`*${name.slice(dot)}`);
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
