// The daemon's configuration in the program's own terms: complete and validated.
import { parseIpv4Range } from '../lib/ipv4.ts';
import type { SettingValues } from './settings.ts';
import { parseLocation } from './snapshot-store-settings.ts';
import { type NamedSource, parseNamedPath, parseNamedSource, type TcpAddress } from './values.ts';

/** How a restored copy of a guest gets its memory. */
export type ForkMemory = 'auto' | 'copy-on-write' | 'on-demand' | 'copy';

type Listen = TcpAddress | { readonly path: string; readonly mode: number; readonly owner?: string };

/**
 * Optional fields are absent when a feature is off or the host's default applies. `enginePrograms` has program paths by
 * engine name; engines without one are found in PATH.
 */
export function toConfig(
  values: SettingValues,
  enginePrograms: Readonly<Record<string, string>>,
  file?: string,
) {
  const uids = { base: values.jail_uid_base, count: values.jail_uid_count };
  return {
    /** The settings file; absent without one. */
    ...(file !== undefined && { file }),
    ...toAccess(values),
    ingress: toIngress(values),
    e2b: toE2b(values),
    fleet: toFleet(values),
    /** Every client needs a key, even when none exists. */
    requiresKeys: values.require_keys,
    /** Browser origins that may use the API (CORS). */
    corsOrigins: values.cors_origin,
    maxConnections: values.max_connections,
    /** Absent: half of maxConnections. */
    ...(values.max_connections_per_client > 0 && {
      maxConnectionsPerClient: values.max_connections_per_client,
    }),
    dataDir: values.data_dir,
    runDir: values.run_dir,
    /** `auto` or an engine's name. */
    engine: values.engine,
    enginePrograms,
    forkMemory: values.fork_memory,
    /** Range of user ids for VMMs and other isolated processes. */
    uids,
    /** Absent: VMMs run without a jail, as the daemon's user. */
    ...(!values.insecure_no_jail && {
      jail: {
        uids,
        cgroups: {
          path: values.cgroup,
          cpuShare: values.sandbox_cpu_percent / 100,
          ioBytesPerS: values.sandbox_io_bytes_per_s,
        },
      },
    }),
    /** Refuses emulation and incomplete jails. */
    requiresIsolation: values.require_isolation,
    /** Bakes built-in profiles on demand. */
    bakesOnDemand: values.bake_on_demand === 'on',
    /** Absent: the kernel prepared by the rootfs builder. */
    ...(values.kernel === undefined ? {} : { kernelPath: values.kernel }),
    ...(values.initrd === undefined ? {} : { initramfsPath: values.initrd }),
    defaults: {
      profile: values.default_profile,
      vcpus: values.default_vcpus,
      memoryMib: values.default_memory_mib,
      diskBytes: values.default_disk_bytes,
    },
    limits: {
      vcpus: values.max_vcpus,
      memoryMib: values.max_memory_mib,
      diskBytes: values.max_disk_bytes,
      sandboxes: values.max_sandboxes,
      fork: values.max_fork,
    },
    /** Whether a sandbox's whole disk is allocated at creation. */
    reservesDisks: values.disk_allocation === 'full',
    /** Disk limit for templates; 0 disables templates. */
    templateBudgetBytes: values.template_disk_bytes,
    sleep: {
      /** Disk limit of what pauses save; 0: no limit. */
      maxStoredBytes: values.paused_disk_bytes,
      resumeTimeoutMs: values.resume_timeout_s * 1000,
    },
    /** Absent: container images are disabled. */
    ...(values.images === 'on' && {
      images: {
        diskBytes: values.image_disk_bytes,
        allowedDirs: values.image_path_allow,
        isShared: values.shared_images === 'on',
        sharedBytes: values.shared_images_bytes,
      },
    }),
    admission: {
      /** Host memory that is not available to sandboxes. */
      memoryReserveBytes: values.memory_reserve_bytes,
      /** Overcommit factor of the remaining memory. */
      memoryOvercommit: values.memory_overcommit_percent / 100,
    },
    /** Process limit of one command in a guest; 0: derived from the guest's memory. */
    pidsLimit: values.sandbox_pids_limit,
    /** A guest agent that does not answer for this long is considered hung; 0 disables the watchdog. */
    watchdogTimeoutMs: values.watchdog_timeout_s * 1000,
    /** Whether a shutdown keeps or deletes the sandboxes. */
    onExit: values.on_exit,
    /** Absent: the engine's default. */
    ...(values.probe_timeout_s > 0 && { probeTimeoutMs: values.probe_timeout_s * 1000 }),
    bootTimeoutMs: values.boot_timeout_s * 1000,
    drainTimeoutMs: values.drain_timeout_s * 1000,
    /** Absent: logs of sandboxes are not stored. */
    ...(values.sandbox_logs === 'on' && {
      sandboxLogs: {
        maxBytes: values.sandbox_log_max_bytes,
        retentionMs: values.sandbox_log_retention_s * 1000,
        retentionBytes: values.sandbox_log_retention_bytes,
      },
    }),
    /** Ports for keys whose policy names none; empty: the ports outside the host's ephemeral range. */
    publishPorts: values.publish_ports,
    network: {
      /** Absent: a free range is chosen. */
      ...(values.network_subnet !== 'auto' && { subnet: values.network_subnet }),
      /** Private ranges that DNS answers may lead to. */
      allowedRanges: values.network_allow_range,
      /** Absent: the operator has none. */
      ...(values.network_presets !== '' && { presetsFile: values.network_presets }),
      /** Absent: the public authorities alone vouch for servers. */
      ...(values.egress_ca_file !== '' && { egressCaFile: values.egress_ca_file }),
      hasInternet: values.network_internet === 'on',
      /** `address` or `address:port`; empty: the host's name servers. */
      dnsServers: values.dns_upstream,
    },
    secrets: toSecrets(values),
    snapshotStore: toSnapshotStore(values),
    /** Absent: no audit trail. */
    ...(values.audit === 'on' && { audit: { maxBytes: values.audit_max_bytes } }),
    events: { keepMs: values.events_keep_s * 1000, maxBytes: values.events_keep_bytes },
    log: { level: values.log_level, format: values.log_format },
  };
}

export type Config = Readonly<ReturnType<typeof toConfig>>;

/** Settings are valid. */
function toEntries(source: NamedSource | undefined): NamedSource[] {
  return source === undefined ? [] : [source];
}

function toSecrets(values: SettingValues) {
  const credentialsDir = process.env.CREDENTIALS_DIRECTORY;
  return {
    /** Absent: a credential of systemd, or a file beside the registry. */
    ...(values.secrets_key_file && { keyFile: values.secrets_key_file }),
    /** What stored secrets may name, by name or tenant and name. */
    sources: {
      files: new Map(values.secret_file.flatMap((text) => toEntries(parseNamedPath(text)))),
      commands: new Map(values.secret_command.flatMap((text) => toEntries(parseNamedPath(text)))),
      credentials: new Map(values.secret_credential.flatMap((text) => toEntries(parseNamedSource(text)))),
      ...(credentialsDir && { credentialsDir }),
    },
    allowsPlainHttp: values.secrets_plain_http === 'on',
  };
}

/** Undefined: snapshots are on this host alone. */
function toSnapshotStore(values: SettingValues) {
  const {
    snapshot_store: location,
    snapshot_store_endpoint: endpoint,
    snapshot_store_region: region,
  } = values;
  if (location === undefined) return undefined;
  const credentialsDir = process.env.CREDENTIALS_DIRECTORY;
  const caFile = values.snapshot_store_ca_file;
  const keyFile = values.snapshot_store_key_file;
  const credentialsFile = values.snapshot_store_credentials_file;
  return {
    ...parseLocation(location),
    endpoint: new URL(endpoint ?? `https://s3.${region}.amazonaws.com`),
    region,
    addressing: values.snapshot_store_addressing,
    ...(caFile !== undefined && { caFile }),
    ...(keyFile !== undefined && { keyFile }),
    ...(credentialsFile !== undefined && { credentialsFile }),
    ...(credentialsDir && { credentialsDir }),
  };
}

function toAccess(values: SettingValues) {
  const { listen, tls_cert, tls_key, tls_client_ca, allowed_host, metrics_listen } = values;
  const tls = tls_cert !== undefined && tls_key !== undefined && { certPath: tls_cert, keyPath: tls_key };
  return {
    listen: toListen(listen, values),
    metrics: {
      /** Absent: no separate listener. */
      ...(metrics_listen !== undefined && { listen: toListen(metrics_listen, values) }),
      /** Number of sandboxes with their own time series. */
      topSandboxes: values.metrics_top_sandboxes,
      /** Keys of labels that metrics have. */
      labelKeys: values.metrics_label_keys,
    },
    /** Absent: no TLS. */
    ...(tls && { tls: { ...tls, ...(tls_client_ca !== undefined && { clientCaPath: tls_client_ca }) } }),
    /** Host names accepted beside the loopback names. */
    allowedHosts: allowed_host.map(({ scheme = tls ? 'https' : 'http', at }) => ({ scheme, at })),
  };
}

/** Undefined: no ingress. */
function toIngress(values: SettingValues) {
  const { ingress_listen, ingress_domain, ingress_tls_cert, ingress_tls_key } = values;
  if (ingress_listen === undefined) return undefined;
  const hasTls = ingress_tls_cert !== undefined && ingress_tls_key !== undefined;
  const { scheme, at } = ingress_domain;
  return {
    listen: toListen(ingress_listen, values),
    domain: at.host,
    scheme: scheme ?? (hasTls ? ('https' as const) : ('http' as const)),
    /** Absent: that of the listener, or the default one of a scheme that was given. */
    ...(at.port !== undefined && { port: at.port }),
    hasOwnPort: at.port === undefined && scheme === undefined,
    ...(hasTls && { tls: { certPath: ingress_tls_cert, keyPath: ingress_tls_key } }),
    maxConnections: values.ingress_max_connections,
    rateLimits: { clientPerS: values.ingress_client_rate, sandboxPerS: values.ingress_sandbox_rate },
    logsAccess: values.ingress_access_log,
  };
}

/** Undefined: no front for clients of E2B. It has the certificate of the API. */
function toE2b(values: SettingValues) {
  const { e2b_listen, e2b_domain, tls_cert, tls_key } = values;
  if (e2b_listen === undefined) return undefined;
  const { scheme, at } = e2b_domain;
  const hasTls = tls_cert !== undefined && tls_key !== undefined;
  return {
    listen: toListen(e2b_listen, values),
    domain: at.host,
    scheme: scheme ?? (hasTls ? ('https' as const) : ('http' as const)),
    /** Absent: that of the listener, or the default one of a scheme that was given. */
    ...(at.port !== undefined && { port: at.port }),
    hasOwnPort: at.port === undefined && scheme === undefined,
  };
}

/** Undefined: this host is in no fleet. */
function toFleet(values: SettingValues) {
  const { join, join_name, join_url, fleet_secret_file, fleet_namespace, pods_key, pods_range } = values;
  if (join === undefined || fleet_secret_file === undefined) return undefined;
  return {
    kubeconfigPath: join,
    name: join_name,
    /** Absent: the address of the API. */
    ...(join_url !== undefined && { url: join_url }),
    secretPath: fleet_secret_file,
    namespace: fleet_namespace,
    /** Absent: pods of others are not run. */
    ...(pods_key !== undefined && {
      pods: { key: pods_key, range: pods_range === undefined ? undefined : parseIpv4Range(pods_range) },
    }),
  };
}

function toListen(
  listen: SettingValues['listen'],
  { socket_mode, socket_owner }: Pick<SettingValues, 'socket_mode' | 'socket_owner'>,
): Listen {
  if (!('path' in listen)) return listen;
  const owner = socket_owner !== undefined && { owner: socket_owner };
  return { ...listen, mode: Number.parseInt(socket_mode, 8), ...owner };
}
