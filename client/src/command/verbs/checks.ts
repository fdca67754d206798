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
    'The checks are those of `sandboxd doctor --quick`; needs the operation `metrics`, and no tenant. At the gateway of a fleet, they are those of all hosts. Exits with 1 when a check has found a fault.',
  flags: {},
  example: 'sandbox checks',
  async run(_, { client, terminal, signal, isJson }) {
    const report = await client.checkHost({ signal });
    if (isJson) terminal.printJson(report);
    else for (const line of describe(report)) terminal.print(line);
    for (const host of report.unreachable_hosts ?? []) terminal.complain(`${host}: it does not answer`);
    return report.worst === 'fault' ? 1 : 0;
  },
};

function describe({ groups }: HostChecks): string[] {
  return groups.flatMap(({ group, host, findings }) => [
    host === undefined ? group : `${host}: ${group}`,
    ...findings.flatMap(({ name, level, seen, advice }) => [
      `  ${level.padEnd(LEVEL_COLUMNS)} ${name.padEnd(NAME_COLUMNS)} ${seen}`,
      ...(advice === undefined ? [] : [`${' '.repeat(LEVEL_COLUMNS + 3)}→ ${advice}`]),
    ]),
  ]);
}
