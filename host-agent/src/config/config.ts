// The daemon's configuration in the program's own terms, every value present and checked.
import type { SandboxLimits } from '@sandboxd/api';
import type { Authority, Scheme } from '../lib/authority.ts';
import type { Ipv4Range } from '../lib/ipv4.ts';
import type { SettingValues } from './settings.ts';
import type { TcpAddress } from './values.ts';

/** How a copy of a saved guest gets its memory. */
export type ForkMemory = 'auto' | 'copy-on-write' | 'on-demand' | 'copy';

type Listen = TcpAddress | { readonly path: string; readonly mode: number; readonly owner?: string };

export type Config = {
  /** That settings were read from; absent: none. */
  readonly file?: string;
  readonly listen: Listen;
  readonly metrics: {
    /** Absent: none of its own. */
    readonly listen?: Listen;
    /** Sandboxes with series of their own. */
    readonly topSandboxes: number;
  };
  /** Absent: connections are plain. */
  readonly tls?: { readonly certPath: string; readonly keyPath: string; readonly clientCaPath?: string };
  /** Pages of which origins may use the API. */
  /** Nobody gets in without a key, also where there is none. */
  readonly requiresKeys: boolean;
  readonly corsOrigins: readonly string[];
  /** Names of the daemon beside its loopback ones. */
  readonly allowedHosts: readonly { readonly scheme: Scheme; readonly at: Authority }[];
  readonly maxConnections: number;
  /** Absent: half of them. */
  readonly maxConnectionsPerClient?: number;
  readonly dataDir: string;
  readonly runDir: string;
  /** `auto` or an engine's name. */
  readonly engine: string;
  /** Paths of engines' programs, by the engine's name; absent: the one that PATH finds. */
  readonly enginePrograms: Readonly<Record<string, string>>;
  readonly forkMemory: ForkMemory;
  /** User ids of processes that are to have one of their own. */
  readonly uids: { readonly base: number; readonly count: number };
  /** Absent: VMMs run as the daemon does. */
  readonly jail?: {
    readonly uids: { readonly base: number; readonly count: number };
    readonly cgroups: { readonly path: string; readonly cpuShare: number; readonly ioBytesPerS: number };
  };
  /** Neither emulation will do nor a jail that lacks a part. */
  readonly requiresIsolation: boolean;
  /** Built-in profiles are made when they are wanted. */
  readonly bakesOnDemand: boolean;
  /** Absent: the ones prepared by the rootfs builder. */
  readonly kernelPath?: string;
  readonly initramfsPath?: string;
  readonly defaults: {
    readonly profile: string;
    readonly vcpus: number;
    readonly memoryMib: number;
    readonly diskBytes: number;
  };
  readonly limits: SandboxLimits;
  /** Whether a sandbox gets all of its disk at once. */
  readonly reservesDisks: boolean;
  /** Disk for templates; 0 turns them off. */
  readonly templateBudgetBytes: number;
  /** Absent: no container images. */
  readonly images?: { readonly diskBytes: number; readonly allowedDirs: readonly string[] };
  readonly admission: {
    /** Memory of the host that sandboxes never get. */
    readonly memoryReserveBytes: number;
    /** How often the rest may be promised to sandboxes. */
    readonly memoryOvercommit: number;
  };
  /** A guest agent that does not answer for this long hangs; 0 never. */
  readonly watchdogTimeoutMs: number;
  /** What becomes of sandboxes when the daemon is told to stop. */
  readonly onExit: 'keep' | 'destroy';
  /** Absent: as long as each engine usually needs. */
  readonly probeTimeoutMs?: number;
  readonly bootTimeoutMs: number;
  /** Of one command in a guest; 0: by the guest's size. */
  readonly pidsLimit: number;
  readonly drainTimeoutMs: number;
  /** Absent: no logs of sandboxes are kept. */
  readonly sandboxLogs?: {
    readonly maxBytes: number;
    readonly retentionMs: number;
    readonly retentionBytes: number;
  };
  /** That keys may publish whose policy does not say which; none: those that the host does not use itself. */
  readonly publishPorts: readonly string[];
  readonly network: {
    /** Absent: one that is free. */
    readonly subnet?: Ipv4Range;
    /** What is not the internet, and names may lead to all the same. */
    readonly allowedRanges: readonly Ipv4Range[];
    /** `address` or `address:port`; none: the host's own. */
    readonly dnsServers: readonly string[];
  };
  /** Absent: there is no audit trail. */
  readonly audit?: { readonly maxBytes: number };
  readonly events: { readonly keepMs: number; readonly maxBytes: number };
  readonly log: { readonly level: string; readonly format: 'auto' | 'json' | 'pretty' };
};

export function toConfig(
  values: SettingValues,
  enginePrograms: Readonly<Record<string, string>>,
  file?: string,
): Config {
  const uids = { base: values.jail_uid_base, count: values.jail_uid_count };
  return {
    ...(file !== undefined && { file }),
    ...toReach(values),
    requiresKeys: values.require_keys,
    corsOrigins: values.cors_origin,
    maxConnections: values.max_connections,
    ...(values.max_connections_per_client > 0 && {
      maxConnectionsPerClient: values.max_connections_per_client,
    }),
    dataDir: values.data_dir,
    runDir: values.run_dir,
    engine: values.engine,
    enginePrograms,
    forkMemory: values.fork_memory,
    uids,
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
    requiresIsolation: values.require_isolation,
    bakesOnDemand: values.bake_on_demand === 'on',
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
    reservesDisks: values.disk_allocation === 'full',
    templateBudgetBytes: values.template_disk_bytes,
    ...(values.images === 'on' && {
      images: { diskBytes: values.image_disk_bytes, allowedDirs: values.image_path_allow },
    }),
    admission: {
      memoryReserveBytes: values.memory_reserve_bytes,
      memoryOvercommit: values.memory_overcommit_percent / 100,
    },
    pidsLimit: values.sandbox_pids_limit,
    watchdogTimeoutMs: values.watchdog_timeout_s * 1000,
    onExit: values.on_exit,
    ...(values.probe_timeout_s > 0 && { probeTimeoutMs: values.probe_timeout_s * 1000 }),
    bootTimeoutMs: values.boot_timeout_s * 1000,
    drainTimeoutMs: values.drain_timeout_s * 1000,
    ...(values.sandbox_logs === 'on' && {
      sandboxLogs: {
        maxBytes: values.sandbox_log_max_bytes,
        retentionMs: values.sandbox_log_retention_s * 1000,
        retentionBytes: values.sandbox_log_retention_bytes,
      },
    }),
    publishPorts: values.publish_ports,
    network: {
      ...(values.network_subnet !== 'auto' && { subnet: values.network_subnet }),
      allowedRanges: values.network_allow_range,
      dnsServers: values.dns_upstream,
    },
    ...(values.audit === 'on' && { audit: { maxBytes: values.audit_max_bytes } }),
    events: { keepMs: values.events_keep_s * 1000, maxBytes: values.events_keep_bytes },
    log: { level: values.log_level, format: values.log_format },
  };
}

function toReach(values: SettingValues): Pick<Config, 'listen' | 'tls' | 'allowedHosts' | 'metrics'> {
  const { listen, tls_cert, tls_key, tls_client_ca, allowed_host, metrics_listen } = values;
  const tls = tls_cert !== undefined && tls_key !== undefined && { certPath: tls_cert, keyPath: tls_key };
  return {
    listen: toListen(listen, values),
    metrics: {
      ...(metrics_listen !== undefined && { listen: toListen(metrics_listen, values) }),
      topSandboxes: values.metrics_top_sandboxes,
    },
    ...(tls && { tls: { ...tls, ...(tls_client_ca !== undefined && { clientCaPath: tls_client_ca }) } }),
    allowedHosts: allowed_host.map(({ scheme = tls ? 'https' : 'http', at }) => ({ scheme, at })),
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
