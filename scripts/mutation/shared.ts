// What the parts of a mutation run agree on.

/** A test before all others, which imports them. */
export const GATE = 'test files can be imported';

export type HostReport = {
  readonly tests: readonly { readonly name: string; readonly file: string }[];
  /** Hits by mutant: of modules while they load, and by test. */
  readonly coverage:
    | {
        readonly static: Record<string, number>;
        readonly perTest: Record<string, Record<string, number>>;
      }
    | undefined;
  /** How often the active mutant was reached, when there is a limit for it. */
  readonly hits: number | undefined;
};

/** Whether a mutant belongs to the `every`th that a quick run takes. Seeds below `every` have no mutant in common. */
export function isInSample(id: string, every: number, seed: number): boolean {
  return Number(id) % every === seed % every;
}
