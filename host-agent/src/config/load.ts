// Merges the sources by precedence (flags, environment, file, defaults), validates every value and returns the
// configuration.
import { existsSync } from 'node:fs';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import type { z } from 'zod';
import { type Config, toConfig } from './config.ts';
import { createSettings, type SettingKey, type SettingValues, toProgramKey } from './settings.ts';
import { ConfigError, type RawValue, readEnvironment, readFile, readFlags } from './sources.ts';
import { MAX_SOCKET_PATH_BYTES, type Setting } from './values.ts';

/** Longest suffix after the run directory: `/<sandbox id>/<incarnation>/<name>.sock`. */
const SOCKET_SUFFIX_BYTES = 1 + 17 + 1 + 8 + 1 + 16;

type LoadOptions = {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly engineNames: readonly string[];
  /** Settings file used when no file is named, if it exists. */
  readonly defaultFile?: string | undefined;
};

/** The action that the command line requests. */
export type Loaded =
  | { readonly command: 'help' }
  | { readonly command: 'version' }
  | ({ readonly command: 'print-config' } & LoadedConfig)
  | ({ readonly command: 'serve' } & LoadedConfig);

export type LoadedConfig = {
  readonly config: Config;
  readonly values: SettingValues;
  readonly warnings: readonly string[];
};

/** Throws ConfigError with all problems; each names the source, the key, the value and the allowed values. */
export function loadConfig({ argv, env, engineNames, defaultFile }: LoadOptions): Loaded {
  const settings: Record<string, Setting<unknown>> = createSettings(engineNames);
  const keys = Object.keys(settings);
  const fromText = (key: string, text: string) => settings[key]?.fromText(text) ?? text;
  const problems: string[] = [];
  const warnings: string[] = [];
  const switches = new Set(keys.filter((key) => settings[key]?.isSwitch));
  const flags = readFlags(argv, [...keys, 'config'], problems, fromText, switches);
  if (flags.isHelp) return { command: 'help' };
  if (flags.isVersion) return { command: 'version' };
  const variables = readEnvironment(env, [...keys, 'config'], warnings, fromText);
  const named = flags.values.get('config') ?? variables.get('config');
  const defaultPath = defaultFile !== undefined && existsSync(defaultFile) ? defaultFile : undefined;
  const file = named === undefined ? defaultPath : String(named.value);
  const entries = file === undefined ? new Map() : readFile(file, keys, problems);

  const values: Record<string, unknown> = {};
  for (const [key, setting] of Object.entries(settings)) {
    const raw = flags.values.get(key) ?? variables.get(key) ?? entries.get(key);
    values[key] = raw === undefined ? setting.fallback : check(setting, raw, problems);
  }
  if (problems.length > 0) throw new ConfigError(problems);
  const checked = values as SettingValues;
  const placeOf = (key: SettingKey): string | undefined =>
    (flags.values.get(key) ?? variables.get(key) ?? entries.get(key))?.place;
  checkTogether(checked, placeOf, problems);
  if (problems.length > 0) throw new ConfigError(problems);
  return {
    command: flags.isPrintConfig ? 'print-config' : 'serve',
    config: toConfig(checked, readPrograms(engineNames, values), file && resolve(file)),
    values: checked,
    warnings,
  };
}

function readPrograms(
  engineNames: readonly string[],
  values: Readonly<Record<string, unknown>>,
): Record<string, string> {
  const programs = engineNames.map((name) => [name, values[toProgramKey(name)]] as const);
  return Object.fromEntries(
    programs.flatMap(([name, path]) => (typeof path === 'string' ? [[name, path]] : [])),
  );
}

function check(setting: Setting<unknown>, raw: RawValue, problems: string[]): unknown {
  const result: z.ZodSafeParseResult<unknown> = setting.schema.safeParse(raw.value);
  if (result.success) return result.data;
  problems.push(`${raw.place}: got ${JSON.stringify(raw.value)}, expected ${setting.expected}`);
  return undefined;
}

/** Checks that involve more than one setting. */
function checkTogether(
  values: SettingValues,
  placeOf: (key: SettingKey) => string | undefined,
  problems: string[],
): void {
  checkExposure(values, placeOf, problems);
  if (values.require_isolation && values.insecure_no_jail) {
    problems.push(
      `${placeOf('insecure_no_jail')}: guests without a jail are not isolated, and require_isolation is set; drop one of the two`,
    );
  }
  const longest = Buffer.byteLength(values.run_dir) + SOCKET_SUFFIX_BYTES;
  if (longest > MAX_SOCKET_PATH_BYTES) {
    problems.push(
      `${placeOf('run_dir') ?? 'default of run_dir'}: ${values.run_dir} is ${Buffer.byteLength(values.run_dir)} bytes long, so that sockets ` +
        `beneath it would pass the ${MAX_SOCKET_PATH_BYTES} bytes of a Unix socket address; use at most ` +
        `${MAX_SOCKET_PATH_BYTES - SOCKET_SUFFIX_BYTES}`,
    );
  }
  for (const [standard, limit] of [
    ['default_vcpus', 'max_vcpus'],
    ['default_memory_mib', 'max_memory_mib'],
    ['default_disk_bytes', 'max_disk_bytes'],
  ] as const) {
    // A default that was not set explicitly follows a lower limit.
    if (placeOf(standard) !== undefined && values[standard] > values[limit]) {
      problems.push(
        `${placeOf(standard)}: ${values[standard]} is above ${limit}, which is ${values[limit]}; lower it or raise the limit`,
      );
    }
  }
}

/** Checks the listen addresses. Whether keys exist is known only at start. */
function checkExposure(
  values: SettingValues,
  placeOf: (key: SettingKey) => string | undefined,
  problems: string[],
): void {
  const { listen, metrics_listen, tls_cert, tls_key, tls_client_ca } = values;
  const hasTls = tls_cert !== undefined && tls_key !== undefined;
  if ((tls_cert === undefined) !== (tls_key === undefined)) {
    const place = placeOf('tls_cert') ?? placeOf('tls_key');
    problems.push(`${place}: tls_cert and tls_key go together; give both`);
  } else if (tls_client_ca !== undefined && !hasTls) {
    problems.push(`${placeOf('tls_client_ca')}: there is no TLS without tls_cert and tls_key; give both`);
  }
  if (
    metrics_listen !== undefined &&
    !('path' in metrics_listen) &&
    !isLoopback(metrics_listen.host) &&
    !hasTls
  ) {
    problems.push(
      `${placeOf('metrics_listen')}: ${metrics_listen.host} can be reached from other machines; give tls_cert and tls_key, and make a key ` +
        '(`sandboxd keys create`), or serve metrics on 127.0.0.1, [::1] or unix:/path',
    );
  }
  checkSnapshotStore(values, placeOf, problems);
  checkIngress(values, placeOf, problems);
  checkE2b(values, placeOf, problems);
  checkFleet(values, placeOf, problems);
  if ('path' in listen) {
    if (hasTls)
      problems.push(
        `${placeOf('tls_cert')}: a socket in the file system speaks no TLS; drop tls_cert and tls_key`,
      );
  } else if (!isLoopback(listen.host) && !hasTls) {
    problems.push(
      `${placeOf('listen') ?? 'default of listen'}: ${listen.host} can be reached from other machines; give tls_cert and tls_key, and make a key ` +
        '(`sandboxd keys create`), or listen on 127.0.0.1, [::1] or unix:/path',
    );
  }
}

function checkSnapshotStore(
  { snapshot_store, snapshot_store_endpoint: endpoint }: SettingValues,
  placeOf: (key: SettingKey) => string | undefined,
  problems: string[],
): void {
  if (endpoint === undefined) return;
  if (snapshot_store === undefined)
    problems.push(`${placeOf('snapshot_store_endpoint')}: there is no snapshot_store; give both`);
  // Node has the brackets of IPv6 in the name.
  const { protocol, hostname } = new URL(endpoint);
  const host = hostname.replace(/^\[|\]$/g, '');
  if (protocol === 'http:' && !isLoopback(host))
    problems.push(
      `${placeOf('snapshot_store_endpoint')}: ${host} is another machine; use https, and snapshot_store_ca_file for ` +
        'an authority of your own',
    );
}

function checkIngress(
  { ingress_listen, ingress_tls_cert, ingress_tls_key }: SettingValues,
  placeOf: (key: SettingKey) => string | undefined,
  problems: string[],
): void {
  const hasTls = ingress_tls_cert !== undefined && ingress_tls_key !== undefined;
  const place = placeOf('ingress_tls_cert') ?? placeOf('ingress_tls_key');
  if ((ingress_tls_cert === undefined) !== (ingress_tls_key === undefined))
    problems.push(`${place}: ingress_tls_cert and ingress_tls_key go together; give both`);
  if (ingress_listen === undefined) return;
  if ('path' in ingress_listen) {
    if (hasTls)
      problems.push(
        `${place}: a socket in the file system speaks no TLS; drop ingress_tls_cert and ingress_tls_key`,
      );
  } else if (!isLoopback(ingress_listen.host) && !hasTls) {
    problems.push(
      `${placeOf('ingress_listen')}: ${ingress_listen.host} can be reached from other machines; give ingress_tls_cert and ` +
        'ingress_tls_key, or listen on 127.0.0.1, [::1] or unix:/path behind a proxy',
    );
  }
}

function checkE2b(
  { e2b_listen, tls_cert, tls_key }: SettingValues,
  placeOf: (key: SettingKey) => string | undefined,
  problems: string[],
): void {
  if (e2b_listen === undefined) return;
  const hasTls = tls_cert !== undefined && tls_key !== undefined;
  if ('path' in e2b_listen || isLoopback(e2b_listen.host) || hasTls) return;
  problems.push(
    `${placeOf('e2b_listen')}: ${e2b_listen.host} can be reached from other machines; give tls_cert and tls_key, or ` +
      'listen on 127.0.0.1, [::1] or unix:/path behind a proxy',
  );
}

function checkFleet(
  { join, join_url, fleet_secret_file, listen, pods_key, pods_range, ...values }: SettingValues,
  placeOf: (key: SettingKey) => string | undefined,
  problems: string[],
): void {
  if (pods_key !== undefined && join === undefined)
    problems.push(`${placeOf('pods_key')}: only a host of a fleet (join) runs pods`);
  if (pods_range !== undefined && pods_key === undefined)
    problems.push(`${placeOf('pods_range')}: without pods_key no pods are run`);
  if (values.shared_images === 'on' && (join === undefined || values.snapshot_store === undefined))
    problems.push(
      `${placeOf('shared_images')}: only hosts of a fleet (join) with a snapshot_store share images`,
    );
  if (join === undefined) return;
  const place = placeOf('join');
  if (fleet_secret_file === undefined)
    problems.push(`${place}: a host of a fleet needs fleet_secret_file, which its gateways have, too`);
  if ('path' in listen && join_url === undefined)
    problems.push(
      `${place}: gateways cannot reach a Unix socket of this host; give join_url, or listen on an address`,
    );
}

export function isLoopback(host: string): boolean {
  if (host.toLowerCase() === 'localhost' || host === '::1') return true;
  return isIP(host) === 4 && host.startsWith('127.');
}
