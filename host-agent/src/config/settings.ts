// All settings of the daemon. File keys, flags, environment variables and help are derived from this table.
import {
  DEFAULT_DISK_BYTES,
  DEFAULT_MEMORY_MIB,
  DEFAULT_VCPUS,
  MAX_DISK_BYTES,
  MAX_FORKS,
  MAX_MEMORY_MIB,
  MAX_VCPUS,
  MIN_DISK_BYTES,
  MIN_MEMORY_MIB,
} from '@sandboxd/api';
import { FLEET_SETTINGS, type OptionalFleetKey } from './fleet-settings.ts';
import { E2B_SETTINGS, INGRESS_SETTINGS, METRICS_SETTINGS, SECRETS_SETTINGS } from './module-settings.ts';
import { type OptionalStoreKey, SNAPSHOT_STORE_SETTINGS } from './snapshot-store-settings.ts';
import {
  bytes,
  choice,
  hostNames,
  integer,
  listenAddress,
  nameServers,
  origins,
  path,
  paths,
  portRanges,
  ranges,
  subnet,
  text,
  toggle,
} from './values.ts';

const GIB = 2 ** 30;
const MIB = 2 ** 20;

/** Best method first. */
const FORK_MEMORY = ['copy-on-write', 'on-demand', 'copy'] as const;

/** `engineNames` are the engines of this build, best first. */
export function createSettings(engineNames: readonly string[]) {
  return {
    listen: listenAddress({
      fallback: { host: '127.0.0.1', port: 7878 },
      help: 'address of the REST API: TCP or a Unix socket',
    }),
    socket_owner: text({
      placeholder: 'user[:group]',
      help: 'owner of the Unix socket, by name or id; default: the daemon’s user',
    }),
    socket_mode: text({
      fallback: '600',
      pattern: /^0?[0-7]{3}$/,
      expected: 'three octal digits',
      placeholder: 'mode',
      help: 'mode of the Unix socket, such as 660 for its owner and group',
    }),
    tls_cert: path({
      help: 'TLS certificate chain (PEM); reloaded when it changes and on SIGHUP',
    }),
    tls_key: path({ help: 'private key of the TLS certificate (PEM)' }),
    tls_client_ca: path({
      help: 'require client certificates of this authority (PEM), in addition to keys',
    }),
    require_keys: toggle({
      help: 'require a key from every client, even when no key exists or the registry was lost',
    }),
    allowed_host: hostNames({
      fallback: [],
      help: 'accept requests for this host name; repeatable',
    }),
    cors_origin: origins({
      fallback: [],
      help: 'allow browser pages of this origin to use the API (CORS), with a key; repeatable',
    }),
    max_connections: integer(1, 1_000_000, {
      fallback: 4096,
      help: 'maximum open connections; reduced when the descriptor limit is too low',
    }),
    max_connections_per_client: integer(0, 1_000_000, {
      fallback: 0,
      help: 'maximum open connections of one client (a host user or a remote address); 0: half of max_connections',
    }),
    data_dir: path({
      fallback: '/var/lib/sandboxd',
      help: 'directory of profiles, kernels, templates, logs and the registry',
    }),
    run_dir: path({
      fallback: '/run/sandboxd',
      help: 'directory of sockets and network namespaces of running sandboxes',
    }),
    engine: choice(['auto', ...engineNames], {
      fallback: 'auto',
      help: 'VMM; auto: the first one that boots, saves and copies a guest on this host',
    }),
    ...programSettings(engineNames),
    fork_memory: choice(['auto', ...FORK_MEMORY], {
      fallback: 'auto',
      help: 'how a fork gets its memory; auto: the best method of the engine',
    }),
    jail_uid_base: integer(1, 2 ** 31 - 1, {
      fallback: 1_879_048_192,
      help: 'first user id of VMMs; each VMM has its own, and nothing else may use the range',
    }),
    jail_uid_count: integer(1, 1_000_000, { fallback: 65_536, help: 'number of user ids for VMMs' }),
    cgroup: text({
      fallback: '/sandboxd',
      pattern: /^(?:\/(?!\.{1,2}(?:\/|$))[^/\0\n]+)+$/,
      expected: 'an absolute path below the mount of cgroup version 2, such as /sandboxd',
      placeholder: 'path',
      help: 'parent control group of VMMs, created if missing (needs cgroup version 2)',
    }),
    sandbox_cpu_percent: integer(0, 10_000, {
      fallback: 200,
      help: 'CPU limit of a VMM, in percent of its vCPUs; 0: no limit (needs cgroup version 2)',
    }),
    sandbox_io_bytes_per_s: bytes(0, 1024 * GIB, {
      fallback: 0,
      help: 'I/O limit of a VMM on the data directory’s disk, per second, for reads and for writes; 0: no limit (needs cgroup version 2)',
    }),
    sandbox_pids_limit: integer(0, 4_194_304, {
      fallback: 0,
      help: 'maximum processes and threads of one command or service; 0: a quarter of the guest kernel’s limit',
    }),
    insecure_no_jail: toggle({
      help: 'run VMMs without a jail: a guest that escapes its VMM controls the host',
    }),
    require_isolation: toggle({
      help: 'run no emulated guests, and refuse to start with an incomplete jail',
    }),
    probe_timeout_s: integer(0, 600, {
      fallback: 0,
      help: 'seconds for an engine’s probe, which boots and copies a guest; a slower engine is not used; 0: 300',
    }),
    default_profile: text({
      fallback: 'base',
      pattern: /^[a-z0-9][a-z0-9._-]{0,62}$/,
      expected: 'a profile name of lower-case letters, digits, dots, dashes and underscores',
      placeholder: 'name',
      help: 'default profile of a sandbox',
    }),
    bake_on_demand: choice(['on', 'off'], {
      fallback: 'off',
      help: 'bake a built-in profile when the first create requests it, from the host’s Debian mirrors',
    }),
    kernel: path({ help: 'boot this uncompressed kernel instead of the prepared one' }),
    initrd: path({ help: 'boot with this initramfs instead of the prepared one' }),
    default_vcpus: integer(1, MAX_VCPUS, {
      fallback: DEFAULT_VCPUS,
      help: 'default vCPUs of a sandbox',
    }),
    default_memory_mib: integer(MIN_MEMORY_MIB, MAX_MEMORY_MIB, {
      fallback: DEFAULT_MEMORY_MIB,
      help: 'default memory of a sandbox, MiB',
    }),
    default_disk_bytes: bytes(MIN_DISK_BYTES, MAX_DISK_BYTES, {
      fallback: DEFAULT_DISK_BYTES,
      help: 'default size of a sandbox’s writable layer',
    }),
    max_vcpus: integer(1, MAX_VCPUS, { fallback: MAX_VCPUS, help: 'maximum vCPUs of a sandbox' }),
    max_memory_mib: integer(MIN_MEMORY_MIB, MAX_MEMORY_MIB, {
      fallback: MAX_MEMORY_MIB,
      help: 'maximum memory of a sandbox, MiB',
    }),
    max_disk_bytes: bytes(MIN_DISK_BYTES, MAX_DISK_BYTES, {
      fallback: 1024 * GIB,
      help: 'maximum size of a sandbox’s writable layer',
    }),
    disk_allocation: choice(['sparse', 'full'], {
      fallback: 'sparse',
      help: 'full: allocate a sandbox’s whole disk at creation; sparse: allocate it as it is written',
    }),
    max_sandboxes: integer(1, 100_000, { fallback: 1000, help: 'maximum number of sandboxes' }),
    max_fork: integer(1, MAX_FORKS, { fallback: MAX_FORKS, help: 'maximum forks of one request' }),
    memory_reserve_bytes: bytes(0, 16_384 * GIB, {
      fallback: 512 * MIB,
      help: 'host memory that is reserved from sandboxes',
    }),
    memory_overcommit_percent: integer(1, 10_000, {
      fallback: 200,
      help: 'memory overcommit: total memory of all sandboxes, in percent of the host memory that is not reserved; 100: no overcommit',
    }),
    template_disk_bytes: bytes(0, 16_384 * GIB, {
      fallback: 8 * GIB,
      help: 'disk limit of templates (saved booted guests); 0: no templates, every sandbox boots',
    }),
    paused_disk_bytes: bytes(0, 16_384 * GIB, {
      fallback: 0,
      help: 'disk limit of what pauses of sandboxes save, beside the disks of the sandboxes; a pause beyond it is refused; 0: no limit',
    }),
    resume_timeout_s: integer(1, 3600, {
      fallback: 60,
      help: 'seconds that a request waits for a paused sandbox to resume',
    }),
    images: choice(['on', 'off'], {
      fallback: 'on',
      help: 'enable container images, which skopeo pulls with the host’s credentials',
    }),
    image_path_allow: paths({
      fallback: [],
      help: 'allow creates to use image archives and root filesystems below this host directory; repeatable',
    }),
    image_disk_bytes: bytes(0, 16_384 * GIB, {
      fallback: 64 * GIB,
      help: 'disk limit of images; unused images are evicted, least recently used first; 0: no limit',
    }),
    boot_timeout_s: integer(1, 3600, {
      fallback: 60,
      help: 'seconds for a guest to boot; the create fails after that',
    }),
    on_exit: choice(['keep', 'destroy'], {
      fallback: 'keep',
      help: 'on SIGTERM: keep sandboxes running for the next daemon to adopt, or delete them',
    }),
    watchdog_timeout_s: integer(0, 3600, {
      fallback: 30,
      help: 'seconds without an answer after which a guest agent is considered hung; 0: never',
    }),
    drain_timeout_s: integer(0, 3600, {
      fallback: 30,
      help: 'on SIGTERM: seconds for running requests to finish',
    }),
    sandbox_logs: choice(['on', 'off'], {
      fallback: 'on',
      help: 'store the output of services and commands on disk',
    }),
    sandbox_log_max_bytes: bytes(MIB, 1024 * GIB, {
      fallback: 64 * MIB,
      help: 'size limit of one sandbox’s log; the oldest records are removed first',
    }),
    sandbox_log_retention_s: integer(0, 2 ** 31 - 1, {
      fallback: 7 * 86_400,
      help: 'seconds for which the log of a deleted sandbox is kept',
    }),
    sandbox_log_retention_bytes: bytes(0, 1024 * GIB, {
      fallback: 8 * GIB,
      help: 'size limit of all logs of deleted sandboxes; the oldest are removed first',
    }),
    network_subnet: subnet({
      fallback: 'auto',
      help: 'IPv4 range of sandboxes, four addresses for each with a network; auto: a range without a route on the host',
    }),
    network_allow_range: ranges({
      fallback: [],
      help: 'allow DNS answers in this private range, such as 10.1.0.0/16; repeatable',
    }),
    network_presets: path({
      help: 'file of presets: lists of rules that clients can name; read again when it changes',
    }),
    egress_ca_file: path({
      help: 'certificates (PEM) that vouch for servers of inspected TLS, besides the public ones; read at the start',
    }),
    network_internet: choice(['on', 'off'], {
      fallback: 'off',
      help: 'offer the preset internet: every public address; keys with net_allow_max need it in net_presets',
    }),
    publish_ports: portRanges({
      fallback: [],
      help: 'host ports that restricted keys may publish when their policy names none, such as 8000-8999; default: from 1024 on, without the ephemeral ports',
    }),
    dns_upstream: nameServers({
      fallback: [],
      help: 'name server for sandboxes, instead of the host’s; repeatable',
    }),
    audit: choice(['on', 'off'], {
      fallback: 'on',
      help: 'write an audit trail of requests and refusals to audit/ in the data directory',
    }),
    audit_max_bytes: bytes(8 * MIB, 1024 * GIB, {
      fallback: GIB,
      help: 'size limit of the audit trail; its oldest file, an eighth of it, is removed first',
    }),
    events_keep_s: integer(60, 2 ** 31 - 1, {
      fallback: 7 * 86_400,
      help: 'seconds for which lifecycle events are kept',
    }),
    events_keep_bytes: bytes(64 * 1024, GIB, {
      fallback: 32 * MIB,
      help: 'size limit of kept lifecycle events; the oldest are removed first',
    }),
    ...INGRESS_SETTINGS,
    ...E2B_SETTINGS,
    ...FLEET_SETTINGS,
    ...METRICS_SETTINGS,
    ...SECRETS_SETTINGS,
    ...SNAPSHOT_STORE_SETTINGS,
    log_level: choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal'], {
      fallback: 'info',
      help: 'lowest level that is logged',
    }),
    log_format: choice(['auto', 'json', 'pretty'], {
      fallback: 'auto',
      help: 'auto: pretty on a terminal, JSON otherwise',
    }),
  };
}

export type Settings = ReturnType<typeof createSettings>;
export type SettingKey = keyof Settings;

/** Settings without a default value. */
type OptionalKey =
  | 'kernel'
  | 'initrd'
  | 'socket_owner'
  | 'tls_cert'
  | 'tls_key'
  | 'tls_client_ca'
  | 'metrics_listen'
  | 'ingress_listen'
  | 'e2b_listen'
  | OptionalFleetKey
  | OptionalStoreKey
  | 'ingress_tls_cert'
  | 'ingress_tls_key';

/** The values of all settings, by file key. */
export type SettingValues = {
  [K in SettingKey]: Settings[K] extends { schema: { _output: infer T } }
    ? K extends OptionalKey
      ? T | undefined
      : T
    : never;
};

/** One setting for each engine, read by its name. */
function programSettings(engineNames: readonly string[]): Record<never, never> {
  return Object.fromEntries(
    engineNames.map((name) => [
      toProgramKey(name),
      path({ help: `program of the ${name} engine, instead of the one that PATH finds` }),
    ]),
  );
}

/** Key of the setting for an engine's program. */
export function toProgramKey(engineName: string): string {
  return `${engineName.replaceAll('-', '_')}_program`;
}

/** `max_vcpus` → `--max-vcpus`. */
export function toFlag(key: string): string {
  return `--${key.replaceAll('_', '-')}`;
}

/** `max_vcpus` → `SANDBOXD_MAX_VCPUS`. */
export function toVariable(key: string): string {
  return `SANDBOXD_${key.toUpperCase()}`;
}
