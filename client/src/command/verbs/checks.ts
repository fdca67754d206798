// `sandbox checks`: what `sandboxd doctor --quick` finds on the daemon's host.
import type { HostChecks } from '../../contract.ts';
import type { Verb } from '../verb.ts';

const LEVEL_COLUMNS = 8;
const NAME_COLUMNS = 24;

export const checks: Verb = {
  name: 'checks',
  operands: '',
  summary: 'Check the requirements and recommendations for the daemon’s host',
  details:
    'The checks are those of `sandboxd doctor --quick`; needs the operation `metrics`, and no tenant. Exits with 1 when a check has found a fault.',
  flags: {},
  example: 'sandbox checks',
  async run(_, { client, terminal, signal, isJson }) {
    const report = await client.checkHost({ signal });
    if (isJson) terminal.printJson(report);
    else for (const line of describe(report)) terminal.print(line);
    return report.worst === 'fault' ? 1 : 0;
  },
};

function describe({ groups }: HostChecks): string[] {
  return groups.flatMap(({ group, findings }) => [
    group,
    ...findings.flatMap(({ name, level, seen, advice }) => [
      `  ${level.padEnd(LEVEL_COLUMNS)} ${name.padEnd(NAME_COLUMNS)} ${seen}`,
      ...(advice === undefined ? [] : [`${' '.repeat(LEVEL_COLUMNS + 3)}→ ${advice}`]),
    ]),
  ]);
}
