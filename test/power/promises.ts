// What a daemon has acknowledged, and at which position of its disk.

/** Not there: never made, or deleted. */
export const GONE = 'gone';

type Change = { readonly value: string; readonly begun: number; acknowledged: number };

export class Promises {
  readonly #changes = new Map<string, Change[]>();
  readonly #position: () => number;

  constructor(position: () => number) {
    this.#position = position;
  }

  get keys(): string[] {
    return [...this.#changes.keys()];
  }

  /** Something that is being changed to `value`; call the result once that is acknowledged. */
  begin(key: string, value: string): () => void {
    const change = { value, begun: this.#position(), acknowledged: Number.POSITIVE_INFINITY };
    const changes = this.#changes.get(key) ?? [];
    changes.push(change);
    this.#changes.set(key, changes);
    return () => {
      change.acknowledged = this.#position();
    };
  }

  /** Runs a change, which is acknowledged when it has resolved. */
  async change<T>(key: string, value: string, make: () => Promise<T>): Promise<T> {
    const acknowledge = this.begin(key, value);
    const made = await make();
    acknowledge();
    return made;
  }

  /** What `key` may be after a cut at `position`: what was acknowledged last, or what was asked for since. */
  allowed(key: string, position: number): string[] {
    let values = [GONE];
    for (const { value, begun, acknowledged } of this.#changes.get(key) ?? []) {
      if (acknowledged <= position) values = [value];
      else if (begun < position) values.push(value);
    }
    return values;
  }

  /** Whether it may be there after a cut at `position`. */
  mayBe(key: string, position: number): boolean {
    return this.allowed(key, position).some((value) => value !== GONE);
  }

  /** What `key` must be after it. */
  required(key: string, position: number): string | undefined {
    const [value, ...others] = this.allowed(key, position);
    return others.length === 0 ? value : undefined;
  }

  /** How many changes of `key` were begun and not acknowledged. */
  countOpen(key: string, position: number): number {
    const changes = this.#changes.get(key) ?? [];
    return changes.filter(({ begun, acknowledged }) => begun < position && acknowledged > position).length;
  }
}
