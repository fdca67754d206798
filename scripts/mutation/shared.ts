// Definitions shared by the parts of a mutation run.

/** The first test, which imports all test files. */
export const GATE = 'test files can be imported';

export type HostReport = {
  readonly tests: readonly { readonly name: string; readonly file: string }[];
  /** Hits by mutant: while modules load, and by test. */
  readonly coverage:
    | {
        readonly static: Record<string, number>;
        readonly perTest: Record<string, Record<string, number>>;
      }
    | undefined;
  /** How often the active mutant was reached, when that is limited. */
  readonly hits: number | undefined;
};

/** Whether a mutant belongs to the sample of a quick run, one in `every`. Two seeds below `every` share no mutant. */
export function isInSample(id: string, every: number, seed: number): boolean {
  return Number(id) % every === seed % every;
}
