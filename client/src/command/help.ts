// Renders help from the table of verbs.
import { renderFlags, renderRow } from '@sandboxd/api/command-line';
import { GLOBAL_FLAGS } from './args.ts';
import type { Verb } from './verb.ts';

export function renderOverview(verbs: readonly Verb[]): string {
  return [
    'Usage: sandbox <verb> [flags] …',
    '',
    'Runs commands in microVM sandboxes of a sandboxd daemon.',
    '',
    ...verbs.map(({ name, summary }) => renderRow(name, summary)),
    '',
    'Global flags:',
    ...renderFlags(GLOBAL_FLAGS),
    '',
    '`sandbox <verb> --help` describes one verb. SANDBOXD_HOST, SANDBOXD_API_KEY and SANDBOXD_CA, or `sandbox context`, select the daemon.',
    '',
  ].join('\n');
}

export function renderVerb({ name, operands, summary, details, flags, example }: Verb): string {
  const usage = ['sandbox', name, Object.keys(flags).length > 0 ? '[flags]' : '', operands];
  return [
    `Usage: ${usage.filter((part) => part !== '').join(' ')}`,
    '',
    `${summary}.${details === undefined ? '' : ` ${details}`}`,
    '',
    ...renderFlags(flags),
    ...renderFlags(GLOBAL_FLAGS),
    '',
    'Example:',
    `  ${example}`,
    '',
  ].join('\n');
}
