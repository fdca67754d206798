// Report of a module's mutants: each survivor, then figures by file and for the module.
import { readFileSync } from 'node:fs';
import { isInSample } from './shared.ts';

type Mutant = {
  readonly id: string;
  readonly status: string;
  readonly mutatorName: string;
  readonly replacement?: string;
  readonly location: { readonly start: { readonly line: number; readonly column: number } };
};
type Report = {
  readonly files: Readonly<Record<string, { readonly source: string; readonly mutants: readonly Mutant[] }>>;
};

const MAX_SHOWN = 100;
/** Columns of the figures, by Stryker's status. Other statuses are not counted. */
const COLUMNS = [
  ['Killed', 'killed'],
  ['Timeout', 'hung'],
  ['Survived', 'survived'],
  ['NoCoverage', 'unreached'],
] as const;

/** From the report at `path`, one in `sample` mutants of a seed. Lists survivors only of the files in `shown`. */
export function summarize(path: string, shown: readonly string[], sample = 1, seed = 0): string {
  const { files } = JSON.parse(readFileSync(path, 'utf8')) as Report;
  const known = Object.entries(files)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([name, file]) =>
        [name, { ...file, mutants: file.mutants.filter(({ id }) => isInSample(id, sample, seed)) }] as const,
    );
  const missed = known
    .filter(([name]) => shown.includes(name))
    .flatMap(([name, file]) => listMissed(name, file));
  const figures = known
    .filter(([, { mutants }]) =>
      mutants.some(({ status }) => COLUMNS.some(([counted]) => counted === status)),
    )
    .map(([name, { mutants }]) => `${figuresOf(mutants)}  ${name}`);
  const total = figuresOf(known.flatMap(([, { mutants }]) => mutants));
  const heads = `     ${COLUMNS.map(([, head]) => `  ${head}`).join('')}`;
  return [...missed, '', heads, ...figures, `${total}  together`].join('\n');
}

function listMissed(name: string, { source, mutants }: Report['files'][string]): string[] {
  const lines = source.split('\n');
  return mutants
    .filter(({ status }) => status === 'Survived' || status === 'NoCoverage' || status === 'RuntimeError')
    .sort((a, b) => a.location.start.line - b.location.start.line)
    .map(({ status, mutatorName, replacement = '', location: { start } }) => {
      const change = replacement.replace(/\s+/g, ' ').slice(0, MAX_SHOWN);
      const line = lines[start.line - 1]?.trim().slice(0, MAX_SHOWN);
      return `${name}:${start.line}:${start.column} ${status} ${mutatorName}: ${line}\n    → ${change}`;
    });
}

function figuresOf(mutants: readonly Mutant[]): string {
  const counts = COLUMNS.map(([expected]) => mutants.filter(({ status }) => status === expected).length);
  const [killed = 0, hung = 0] = counts;
  const share = Math.floor((100 * (killed + hung)) / counts.reduce((sum, count) => sum + count, 0));
  const cells = COLUMNS.map(([, { length }], at) => String(counts[at]).padStart(length + 2));
  return `${String(share).padStart(3)} %${cells.join('')}`;
}
