// The daemon's configuration in the program's own terms, every value present and checked.
import type { SettingValues } from './settings.ts';
import type { TcpAddress } from './values.ts';

/** How a copy of a saved guest gets its memory. */
export type ForkMemory = 'auto' | 'copy-on-write' | 'on-demand' | 'copy';

type Listen = TcpAddress | { readonly path: string; readonly mode: number; readonly owner?: string };

/** What is absent is not wanted, or the host's own. `enginePrograms`: paths of programs that PATH is not asked for, by the engine's name. */
export function toConfig(
  values: SettingValues,
  enginePrograms: Readonly<Record<string, string>>,
  file?: string,
) {
  const uids = { base: values.jail_uid_base, count: values.jail_uid_count };
  return {
    /** That settings were read from; absent: none. */
    ...(file !== undefined && { file }),
    ...toReach(values),
    /** Nobody gets in without a key, also where there is none. */
    requiresKeys: values.require_keys,
    /** Pages of which origins may use the API. */
    corsOrigins: values.cors_origin,
    maxConnections: values.max_connections,
    /** Absent: half of them. */
    ...(values.max_connections_per_client > 0 && {
      maxConnectionsPerClient: values.max_connections_per_client,
    }),
    dataDir: values.data_dir,
    runDir: values.run_dir,
    /** `auto` or an engine's name. */
    engine: values.engine,
    enginePrograms,
    forkMemory: values.fork_memory,
    /** User ids of processes that are to have one of their own. */
    uids,
    /** Absent: VMMs run as the daemon does. */
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
    /** Neither emulation will do nor a jail that lacks a part. */
    requiresIsolation: values.require_isolation,
    /** Built-in profiles are made when they are wanted. */
    bakesOnDemand: values.bake_on_demand === 'on',
    /** Absent: the ones prepared by the rootfs builder. */
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
    /** Whether a sandbox gets all of its disk at once. */
    reservesDisks: values.disk_allocation === 'full',
    /** Disk for templates; 0 turns them off. */
    templateBudgetBytes: values.template_disk_bytes,
    /** Absent: no container images. */
    ...(values.images === 'on' && {
      images: { diskBytes: values.image_disk_bytes, allowedDirs: values.image_path_allow },
    }),
    admission: {
      /** Memory of the host that sandboxes never get. */
      memoryReserveBytes: values.memory_reserve_bytes,
      /** How often the rest may be promised to sandboxes. */
      memoryOvercommit: values.memory_overcommit_percent / 100,
    },
    /** Of one command in a guest; 0: by the guest's size. */
    pidsLimit: values.sandbox_pids_limit,
    /** A guest agent that does not answer for this long hangs; 0 never. */
    watchdogTimeoutMs: values.watchdog_timeout_s * 1000,
    /** What becomes of sandboxes when the daemon is told to stop. */
    onExit: values.on_exit,
    /** Absent: as long as each engine usually needs. */
    ...(values.probe_timeout_s > 0 && { probeTimeoutMs: values.probe_timeout_s * 1000 }),
    bootTimeoutMs: values.boot_timeout_s * 1000,
    drainTimeoutMs: values.drain_timeout_s * 1000,
    /** Absent: no logs of sandboxes are kept. */
    ...(values.sandbox_logs === 'on' && {
      sandboxLogs: {
        maxBytes: values.sandbox_log_max_bytes,
        retentionMs: values.sandbox_log_retention_s * 1000,
        retentionBytes: values.sandbox_log_retention_bytes,
      },
    }),
    /** That keys may publish whose policy does not say which; none: those that the host does not use itself. */
    publishPorts: values.publish_ports,
    network: {
      /** Absent: one that is free. */
      ...(values.network_subnet !== 'auto' && { subnet: values.network_subnet }),
      /** What is not the internet, and names may lead to all the same. */
      allowedRanges: values.network_allow_range,
      /** `address` or `address:port`; none: the host's own. */
      dnsServers: values.dns_upstream,
    },
    /** Absent: there is no audit trail. */
    ...(values.audit === 'on' && { audit: { maxBytes: values.audit_max_bytes } }),
    events: { keepMs: values.events_keep_s * 1000, maxBytes: values.events_keep_bytes },
    log: { level: values.log_level, format: values.log_format },
  };
}

export type Config = Readonly<ReturnType<typeof toConfig>>;

function toReach(values: SettingValues) {
  const { listen, tls_cert, tls_key, tls_client_ca, allowed_host, metrics_listen } = values;
  const tls = tls_cert !== undefined && tls_key !== undefined && { certPath: tls_cert, keyPath: tls_key };
  return {
    listen: toListen(listen, values),
    metrics: {
      /** Absent: none of its own. */
      ...(metrics_listen !== undefined && { listen: toListen(metrics_listen, values) }),
      /** Sandboxes with series of their own. */
      topSandboxes: values.metrics_top_sandboxes,
    },
    /** Absent: connections are plain. */
    ...(tls && { tls: { ...tls, ...(tls_client_ca !== undefined && { clientCaPath: tls_client_ca }) } }),
    /** Names of the daemon beside its loopback ones. */
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
