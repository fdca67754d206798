// What checks of the host find.

export type Level = 'ok' | 'warning' | 'fault';

/** One line of a report. */
export type Finding = {
  readonly name: string;
  readonly level: Level;
  /** The observation: a lower-case phrase. */
  readonly seen: string;
  /** What to do; present for every level but `ok`. */
  readonly advice?: string | undefined;
};

export type FindingGroup = { readonly group: string; readonly findings: readonly Finding[] };

export function worstOf(groups: readonly FindingGroup[]): Level {
  const levels = groups.flatMap(({ findings }) => findings.map(({ level }) => level));
  return (['fault', 'warning'] as const).find((level) => levels.includes(level)) ?? 'ok';
}
