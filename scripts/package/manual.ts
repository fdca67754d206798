// Renders the manual pages from the same tables as `--help`.

import { GLOBAL_FLAGS } from '../../client/src/command/args.ts';
import { VERBS } from '../../client/src/command/verbs.ts';
import { COMMANDS, GROUPS } from '../../host-agent/src/commands/table.ts';
import { createSettings, toFlag } from '../../host-agent/src/config/settings.ts';
import type { Setting } from '../../host-agent/src/config/values.ts';
import { ENGINE_NAMES } from '../../host-agent/src/engines/index.ts';

type Flag = { readonly placeholder?: string; readonly short?: string; readonly help: string };

/** Returns the pages by file name. */
export function renderManual(version: string): Readonly<Record<string, string>> {
  return { 'sandboxd.8': renderDaemon(version), 'sandbox.1': renderCommand(version) };
}

function renderDaemon(version: string): string {
  const settings: Record<string, Setting<unknown>> = createSettings(ENGINE_NAMES);
  const groups = GROUPS.flatMap(({ name, commands }) =>
    commands.map((command) => ({ ...command, name: `${name} ${command.name}` })),
  );
  return [
    title('SANDBOXD', 8, version),
    section('NAME', 'sandboxd \\- daemon that boots, runs, snapshots and forks microVM sandboxes'),
    section('SYNOPSIS', '.B sandboxd\n[\\fIcommand\\fR] [\\fB\\-\\-flag\\fR \\fIvalue\\fR]...'),
    section(
      'DESCRIPTION',
      text(
        'Without a command, or with `serve`, it runs the daemon in the foreground: a REST API that boots, runs and deletes sandboxes. ' +
          'Installed as a package it is the service sandboxd, which systemd starts.',
      ),
    ),
    section(
      'COMMANDS',
      ...[...COMMANDS, ...groups].map(({ name, operands, summary, flags }) =>
        [
          `.SS ${roff(`sandboxd ${name} ${operands}`.trimEnd())}`,
          text(summary),
          ...Object.entries(flags).map(([flag, about]) => renderFlag(flag, about)),
        ].join('\n'),
      ),
    ),
    section(
      'SETTINGS OF THE DAEMON',
      text(
        'Precedence: flag (--data-dir), environment variable (SANDBOXD_DATA_DIR), settings file (key data_dir), default.',
      ),
      ...Object.entries(settings).map(([key, { isSwitch, placeholder, help }]) =>
        renderFlag(toFlag(key).slice(2), isSwitch ? { help } : { placeholder, help }),
      ),
      renderFlag('config', { placeholder: 'path', help: 'JSON file of settings' }),
      renderFlag('print-config', { help: 'print the effective settings as JSON, and exit' }),
      renderFlag('version', { help: 'print the version, and exit' }),
      renderFlag('help', { short: 'h', help: 'print this help with the default values, and exit' }),
    ),
    section(
      'FILES',
      paragraph('/etc/sandboxd/config.json', 'settings of the service; unknown keys are refused'),
      paragraph('/var/lib/sandboxd', 'profiles, kernels, templates, snapshots, logs and the registry'),
      paragraph('/run/sandboxd', 'sockets and network namespaces of running sandboxes'),
      paragraph('/usr/share/doc/sandboxd/docs', 'documentation of operation, API and guarantees'),
    ),
    section('EXIT STATUS', text('0 on success; 1 on failure; 2 for an invalid command line or setting.')),
    section('SEE ALSO', '.BR sandbox (1), systemctl (1)'),
  ].join('\n');
}

function renderCommand(version: string): string {
  return [
    title('SANDBOX', 1, version),
    section('NAME', 'sandbox \\- run commands in microVM sandboxes of a sandboxd daemon'),
    section(
      'SYNOPSIS',
      '.B sandbox\n\\fIverb\\fR [\\fB\\-\\-flag\\fR \\fIvalue\\fR]... [\\fIoperand\\fR]...',
    ),
    section(
      'VERBS',
      ...VERBS.map(({ name, operands, summary, details, flags, example }) =>
        [
          `.SS ${roff(`sandbox ${name} ${operands}`.trimEnd())}`,
          text(`${summary}.${details === undefined ? '' : ` ${details}`}`),
          ...Object.entries(flags).map(([flag, about]) => renderFlag(flag, about)),
          '.PP\nExample:\n.PP\n.RS\n.nf',
          roff(example),
          '.fi\n.RE',
        ].join('\n'),
      ),
    ),
    section('GLOBAL FLAGS', ...Object.entries(GLOBAL_FLAGS).map(([flag, about]) => renderFlag(flag, about))),
    section(
      'ENVIRONMENT',
      paragraph('SANDBOXD_HOST', 'address of the daemon: http://..., https://... or unix:/path'),
      paragraph('SANDBOXD_API_KEY', 'API key'),
    ),
    section('SEE ALSO', '.BR sandboxd (8)'),
  ].join('\n');
}

function title(name: string, part: number, version: string): string {
  return `.TH ${name} ${part} "" "sandboxd ${version}"`;
}

function section(name: string, ...parts: string[]): string {
  return [`.SH ${name}`, ...parts].join('\n');
}

function renderFlag(name: string, { short, placeholder, help }: Flag): string {
  const long = `\\fB${roff(`--${name}`)}\\fR${placeholder === undefined ? '' : ` \\fI${roff(placeholder)}\\fR`}`;
  return `.TP\n${short === undefined ? '' : `\\fB\\-${short}\\fR, `}${long}\n${text(help)}`;
}

function paragraph(head: string, body: string): string {
  return `.TP\n\\fB${roff(head)}\\fR\n${text(body)}`;
}

/** Escapes a first character that roff would read as a request. */
function text(content: string): string {
  const line = roff(content);
  return /^[.']/.test(line) ? `\\&${line}` : line;
}

function roff(content: string): string {
  return content
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('’', '\\(cq')
    .replaceAll('…', '...');
}
