// Renders the commands' help from their tables.
import { HELP_FLAG, renderFlags, renderRow } from '@sandboxd/api/command-line';
import type { Command, Group } from './command.ts';

export function renderCommands(single: readonly Command[], groups: readonly Group[]): string {
  const lines = groups.flatMap(({ name, commands }) =>
    commands.map((command) => renderRow(`${name} ${command.name}`, command.summary)),
  );
  return [
    'Commands:',
    renderRow('serve', 'run the daemon in the foreground; the default command'),
    ...single.map(({ name, summary }) => renderRow(name, summary)),
    ...lines,
    '',
    '`sandboxd <command> --help` describes one command.',
    '',
  ].join('\n');
}

export function renderGroup({ name, summary, commands }: Group): string {
  return [
    `Usage: sandboxd ${name} <command> [--flag value]…`,
    '',
    summary,
    '',
    ...commands.map((command) => renderRow(command.name, command.summary)),
    '',
    `\`sandboxd ${name} <command> --help\` lists the flags of one.`,
    '',
  ].join('\n');
}

export function renderCommand(path: string, { operands, summary, flags }: Command): string {
  return [
    `Usage: ${[path, operands].filter((part) => part !== '').join(' ')} [--flag value]…`,
    '',
    summary,
    '',
    ...renderFlags({ ...flags, ...HELP_FLAG }),
    '',
  ].join('\n');
}
