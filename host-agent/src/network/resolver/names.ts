// Which names an allowlist means.

/** As names are compared: lower case, without a trailing dot. */
export function normalizeName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

/** One label that is worth a question: letters, digits, dashes and underscores. */
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/** An allowlist, its patterns normalized: names, and `*.` with a name, which means exactly one more label. */
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

  /** Whether an allowed name is below this one, which therefore exists (RFC 8020), allowed or not. `name` is normalized. */
  isAboveAllowed(name: string): boolean {
    const end = `.${name}`;
    for (const pattern of this.#names) if (pattern.endsWith(end)) return true;
    return false;
  }
}
