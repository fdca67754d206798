// `sandboxd doctor`: checks the host's requirements and recommendations, with advice.
import { toError } from '../../lib/errors.ts';
import { type FindingGroup, worstOf } from '../../lib/findings.ts';
import { VERSION } from '../../lib/version.ts';
import type { Command } from '../command.ts';
import { HELPERS } from '../installation.ts';
import { loadSharedConfig, SHARED_FLAGS } from '../shared-config.ts';
import { engines } from './engines.ts';
import { type Finding, fault, type Group, type Host, type Level, realHost } from './host.ts';
import { keys, settings } from './keys.ts';
import { cgroups, kernel, machine } from './machine.ts';
import { network } from './network.ts';
import { limits, service } from './service.ts';
import { storage } from './storage.ts';

/** Exit codes in the convention of monitoring plugins. */
const EXIT: Readonly<Record<Level, number>> = { ok: 0, warning: 1, fault: 2 };
const NAME_COLUMNS = 24;
const LEVEL_COLUMNS = 8;

export type Report = readonly FindingGroup[];

export const doctor: Command = {
  name: 'doctor',
  operands: '',
  summary:
    'check the requirements and recommendations for this host; exits with 0 when all is well, 1 with warnings, 2 with faults',
  flags: {
    ...SHARED_FLAGS,
    json: { type: 'boolean', help: 'print the report as JSON' },
    quick: { type: 'boolean', help: 'do not boot guests to probe the engines' },
    probe: {
      type: 'boolean',
      help: 'only choose an engine as the daemon does, and leave the choice for its next start',
    },
  },
  run: async (input, signal) => {
    const host = realHost(loadSharedConfig(input));
    const isJson = input.isSet('json');
    const isProbe = input.isSet('probe');
    const guests = engines(HELPERS, isProbe ? 'remember' : input.isSet('quick') ? 'quick' : 'all', signal);
    const all = [guests, cgroups, kernel, machine, limits, storage, network, keys, settings, service];
    const groups = isProbe ? [guests] : all;
    const report: { group: string; findings: readonly Finding[] }[] = [];
    for (const group of groups) {
      const findings = await examine(group, host, signal);
      report.push({ group: group.name, findings });
      if (!isJson) process.stdout.write(renderGroup(group.name, findings));
    }
    if (isJson)
      process.stdout.write(
        `${JSON.stringify({ version: VERSION, worst: worstOf(report), groups: report }, null, 2)}\n`,
      );
    else process.stdout.write(renderSummary(report));
    process.exitCode = EXIT[worstOf(report)];
  },
};

export async function examine(
  { name, check }: Group,
  host: Host,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  try {
    return await check(host);
  } catch (error) {
    signal.throwIfAborted();
    return [
      fault(
        name,
        `cannot be examined: ${toError(error).message}`,
        'run this as root; report it if that does not help',
      ),
    ];
  }
}

export function renderGroup(name: string, findings: readonly Finding[]): string {
  const lines = findings.flatMap(({ name, level, seen, advice }) => [
    `  ${level.padEnd(LEVEL_COLUMNS)} ${name.padEnd(NAME_COLUMNS)} ${seen}`,
    ...(advice === undefined ? [] : [`${' '.repeat(LEVEL_COLUMNS + 3)}→ ${advice}`]),
  ]);
  return `${name}\n${lines.join('\n')}\n`;
}

function renderSummary(report: Report): string {
  const all = report.flatMap(({ findings }) => findings);
  const count = (level: Level) => all.filter((each) => each.level === level).length;
  const counted = (level: Level) => `${count(level)} ${level}${count(level) === 1 ? '' : 's'}`;
  return `\n${count('ok')} ok, ${counted('warning')}, ${counted('fault')}\n`;
}
