// Suggestions for misspelt names.

/** A word with more changes counts as a different word. */
const MAX_CHANGES = 2;

/** `; did you mean …?`, or an empty string if no known name is similar. */
export function suggest(word: string, known: readonly string[], prefix = ''): string {
  const [best] = known
    .map((name) => ({
      name,
      changes: toChanges(word, name),
    }))
    .filter(({ name, changes }) => changes <= Math.min(MAX_CHANGES, name.length - 1))
    .sort((a, b) => a.changes - b.changes);
  return best === undefined ? '' : `; did you mean ${prefix}${best.name}?`;
}

function toChanges(word: string, name: string): number {
  if (name.startsWith(word) && word.length > 1) return 1;
  // The cost of counting is the product of both lengths, and a word may have any length.
  if (Math.abs(word.length - name.length) > MAX_CHANGES) return Number.POSITIVE_INFINITY;
  return countChanges(word, name);
}

/** The number of letters to insert, delete, replace or swap with a neighbour (Damerau-Levenshtein distance). */
function countChanges(from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, at) => at)];
  const cell = (row: number, column: number): number => rows[row]?.[column] ?? 0;
  for (let row = 1; row <= from.length; row++) {
    rows.push([row]);
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      const isSwapped =
        row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      rows[row]?.push(
        Math.min(
          cell(row - 1, column) + 1,
          cell(row, column - 1) + 1,
          cell(row - 1, column - 1) + (isSame ? 0 : 1),
          isSwapped ? cell(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
  }
  return cell(from.length, to.length);
}
