// Renders `--help` and `--print-config` from the table of settings.
import { formatIpv4Range } from '../lib/ipv4.ts';
import { createSettings, type SettingValues, toFlag } from './settings.ts';
import { formatBytes, formatHostName, formatListen, type HostName, type Setting } from './values.ts';

const FLAG_COLUMNS = 34;

/** `commands` is the help of the other commands, for the help of the whole program. */
export function renderHelp(engineNames: readonly string[], commands?: string): string {
  const settings: Record<string, Setting<unknown>> = createSettings(engineNames);
  const lines = Object.entries(settings).map(([key, setting]) =>
    renderFlag(
      setting.isSwitch ? toFlag(key) : `${toFlag(key)} <${setting.placeholder}>`,
      `${setting.help}${renderFallback(key, setting)}`,
    ),
  );
  return [
    commands === undefined
      ? 'Usage: sandboxd serve [--flag value]…'
      : 'Usage: sandboxd [command] [--flag value]…',
    '',
    'Runs the sandbox daemon in the foreground: a REST API that boots, runs and deletes microVM sandboxes.',
    '',
    ...(commands === undefined ? [] : [commands, 'Settings of the daemon:']),
    'Precedence: flag (--data-dir), environment variable (SANDBOXD_DATA_DIR), settings file (key data_dir), default.',
    '',
    renderFlag(
      '--config <path>',
      'JSON file of settings; default of the Debian package: /etc/sandboxd/config.json',
    ),
    ...lines,
    '',
    renderFlag('--print-config', 'print the effective settings as JSON, and exit'),
    renderFlag('--version', 'print the version, and exit'),
    renderFlag('--help, -h', 'print this help, and exit'),
    '',
  ].join('\n');
}

/** Renders the effective settings as a configuration file. */
export function renderConfig(values: SettingValues): string {
  const listen = formatListen(values.listen);
  const allowed_host = values.allowed_host.map(formatHostName);
  const ingress_domain = formatHostName(values.ingress_domain);
  const e2b_domain = formatHostName(values.e2b_domain);
  const e2b_listen = values.e2b_listen && formatListen(values.e2b_listen);
  const ingress_listen = values.ingress_listen && formatListen(values.ingress_listen);
  const { network_subnet: subnet } = values;
  const networks = {
    network_subnet: subnet === 'auto' ? subnet : formatIpv4Range(subnet),
    network_allow_range: values.network_allow_range.map(formatIpv4Range),
  };
  const fronts = { ingress_listen, ingress_domain, e2b_listen, e2b_domain };
  return `${JSON.stringify({ ...values, listen, allowed_host, ...fronts, ...networks }, null, 2)}\n`;
}

function renderFlag(flag: string, help: string): string {
  const gap =
    flag.length < FLAG_COLUMNS ? ' '.repeat(FLAG_COLUMNS - flag.length) : `\n${' '.repeat(FLAG_COLUMNS + 2)}`;
  return `  ${flag}${gap}${help}`;
}

function renderFallback(key: string, setting: Setting<unknown>): string {
  const { fallback } = setting;
  if (fallback === undefined || setting.isSwitch || Array.isArray(fallback)) return '';
  if (typeof fallback === 'object' && fallback !== null && 'host' in fallback) {
    return ` (${formatListen(fallback as { host: string; port: number })})`;
  }
  if (typeof fallback === 'object' && fallback !== null && 'at' in fallback)
    return ` (${formatHostName(fallback as HostName)})`;
  if (key.endsWith('_bytes')) return ` (${formatBytes(Number(fallback))})`;
  return ` (${String(fallback)})`;
}
