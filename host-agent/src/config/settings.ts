// Every setting of the daemon, once: the file's keys, the flags, the variables and the help all come from this table.
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
import { nameServers, portRanges, ranges, subnet } from './network-values.ts';
import {
  bytes,
  choice,
  hostNames,
  integer,
  listenAddress,
  origins,
  path,
  paths,
  text,
  toggle,
} from './values.ts';

const GIB = 2 ** 30;
const MIB = 2 ** 20;

/** Ways to get a copy's memory, best first. */
const FORK_MEMORY = ['copy-on-write', 'on-demand', 'copy'] as const;

/** `engineNames` are the engines this build has, best first. */
export function createSettings(engineNames: readonly string[]) {
  return {
    listen: listenAddress({
      fallback: { host: '127.0.0.1', port: 7878 },
      help: 'address of the REST API, or a socket in the file system',
    }),
    socket_owner: text({
      placeholder: 'user[:group]',
      help: 'whose the socket of unix:/path is, by name or number; else the daemon’s',
    }),
    socket_mode: text({
      fallback: '600',
      pattern: /^0?[0-7]{3}$/,
      expected: 'three octal digits',
      placeholder: 'mode',
      help: 'who may connect to the socket of unix:/path, such as 660 for its owner and group',
    }),
    tls_cert: path({
      help: 'speak TLS with this certificate (PEM, with those between it and the root), read anew when it changes and on SIGHUP',
    }),
    tls_key: path({ help: 'its private key (PEM)' }),
    tls_client_ca: path({
      help: 'let in only clients with a certificate of this authority (PEM), keys apart',
    }),
    require_keys: toggle({
      help: 'let in nobody without a key, also before there is one and where the data directory is lost with them',
    }),
    allowed_host: hostNames({
      fallback: [],
      help: 'answer requests that call the daemon by this name, too; may be given more than once',
    }),
    cors_origin: origins({
      fallback: [],
      help: 'let pages of this origin use the API from a browser, keys apart; may be given more than once',
    }),
    max_connections: integer(1, 1_000_000, {
      fallback: 4096,
      help: 'clients that may be connected at once; fewer where this process may have few descriptors',
    }),
    max_connections_per_client: integer(0, 1_000_000, {
      fallback: 0,
      help: 'of them those of one client, a user of this host or an address elsewhere; 0: half of them',
    }),
    data_dir: path({
      fallback: '/var/lib/sandboxd',
      help: 'profiles, kernels, templates, logs and the registry',
    }),
    run_dir: path({
      fallback: '/run/sandboxd',
      help: 'sockets and network namespaces of running sandboxes',
    }),
    engine: choice(['auto', ...engineNames], {
      fallback: 'auto',
      help: 'what runs the virtual machines; auto takes the first that boots, saves and copies a guest here',
    }),
    ...programSettings(engineNames),
    fork_memory: choice(['auto', ...FORK_MEMORY], {
      fallback: 'auto',
      help: 'how a copy gets its memory; auto takes the best that the engine has',
    }),
    jail_uid_base: integer(1, 2 ** 31 - 1, {
      fallback: 1_879_048_192,
      help: 'first user id of VMMs, each of which has one of its own; nobody else may use them',
    }),
    jail_uid_count: integer(1, 1_000_000, { fallback: 65_536, help: 'user ids for VMMs' }),
    cgroup: text({
      fallback: '/sandboxd',
      pattern: /^(?:\/(?!\.{1,2}(?:\/|$))[^/\0\n]+)+$/,
      expected: 'an absolute path below the mount of cgroup version 2, such as /sandboxd',
      placeholder: 'path',
      help: 'control group that has one for each VMM, made where it is not there (needs cgroup version 2)',
    }),
    sandbox_cpu_percent: integer(0, 10_000, {
      fallback: 200,
      help: 'most CPU time of a VMM, per cent of what its vCPUs could use; 0 no limit (needs cgroup version 2)',
    }),
    sandbox_io_bytes_per_s: bytes(0, 1024 * GIB, {
      fallback: 0,
      help: 'most that a VMM reads, and writes, of the data directory’s disk in a second; 0 no limit (needs cgroup version 2)',
    }),
    sandbox_pids_limit: integer(0, 4_194_304, {
      fallback: 0,
      help: 'most processes and threads of one command or service of a guest; 0 is a quarter of what its kernel has room for',
    }),
    insecure_no_jail: toggle({
      help: 'VMMs run as the daemon does: a guest that breaks its VMM has the host',
    }),
    require_isolation: toggle({
      help: 'do not start with emulated guests, or where any part of the jail is missing',
    }),
    probe_timeout_s: integer(0, 600, {
      fallback: 0,
      help: 'an engine whose trial guest does not boot and go on as a copy within this many seconds is not used; 0 is 120',
    }),
    default_profile: text({
      fallback: 'base',
      pattern: /^[a-z0-9][a-z0-9._-]{0,62}$/,
      expected: 'a profile name of lower-case letters, digits, dots, dashes and underscores',
      placeholder: 'name',
      help: 'profile of a sandbox that asks for none',
    }),
    bake_on_demand: choice(['on', 'off'], {
      fallback: 'off',
      help: 'whether a built-in profile that is not baked is baked by the first create that asks for it, from the host’s Debian mirrors',
    }),
    kernel: path({ help: 'boot this uncompressed kernel instead of the prepared one' }),
    initrd: path({ help: 'boot with this initramfs instead of the prepared one' }),
    default_vcpus: integer(1, MAX_VCPUS, {
      fallback: DEFAULT_VCPUS,
      help: 'vCPUs of a sandbox that asks for none',
    }),
    default_memory_mib: integer(MIN_MEMORY_MIB, MAX_MEMORY_MIB, {
      fallback: DEFAULT_MEMORY_MIB,
      help: 'memory of a sandbox that asks for none, MiB',
    }),
    default_disk_bytes: bytes(MIN_DISK_BYTES, MAX_DISK_BYTES, {
      fallback: DEFAULT_DISK_BYTES,
      help: 'writable layer of a sandbox that asks for none',
    }),
    max_vcpus: integer(1, MAX_VCPUS, { fallback: MAX_VCPUS, help: 'most vCPUs of one sandbox' }),
    max_memory_mib: integer(MIN_MEMORY_MIB, MAX_MEMORY_MIB, {
      fallback: MAX_MEMORY_MIB,
      help: 'most memory of one sandbox, MiB',
    }),
    max_disk_bytes: bytes(MIN_DISK_BYTES, MAX_DISK_BYTES, {
      fallback: 1024 * GIB,
      help: 'largest writable layer of one sandbox',
    }),
    disk_allocation: choice(['sparse', 'full'], {
      fallback: 'sparse',
      help: 'full reserves the whole disk of a sandbox when it is made; sparse gives it as it is written',
    }),
    max_sandboxes: integer(1, 100_000, { fallback: 1000, help: 'sandboxes that may exist at once' }),
    max_fork: integer(1, MAX_FORKS, { fallback: MAX_FORKS, help: 'most forks of one request' }),
    memory_reserve_bytes: bytes(0, 16_384 * GIB, {
      fallback: 512 * MIB,
      help: 'memory of the host that sandboxes never get',
    }),
    memory_overcommit_percent: integer(1, 10_000, {
      fallback: 200,
      help: 'share of the other memory that sandboxes may be promised together; 100 is never more than there is',
    }),
    template_disk_bytes: bytes(0, 16_384 * GIB, {
      fallback: 8 * GIB,
      help: 'disk for booted guests that creates are copied from; 0 boots every sandbox',
    }),
    images: choice(['on', 'off'], {
      fallback: 'on',
      help: 'whether sandboxes can be made of container images, which skopeo fetches with the host’s credentials',
    }),
    image_path_allow: paths({
      fallback: [],
      help: 'creates may name image archives and root filesystems beneath this directory of the host; may be given more than once',
    }),
    image_disk_bytes: bytes(0, 16_384 * GIB, {
      fallback: 64 * GIB,
      help: 'disk for images; beyond it those that nothing uses are removed, the longest unused first; 0 no limit',
    }),
    boot_timeout_s: integer(1, 3600, {
      fallback: 60,
      help: 'a guest agent that has not answered after this many seconds fails the create',
    }),
    on_exit: choice(['keep', 'destroy'], {
      fallback: 'keep',
      help: 'on SIGTERM: sandboxes run on and the next daemon adopts them, or they are deleted',
    }),
    watchdog_timeout_s: integer(0, 3600, {
      fallback: 30,
      help: 'a guest agent that has not answered for this many seconds counts as hanging; 0 never',
    }),
    drain_timeout_s: integer(0, 3600, {
      fallback: 30,
      help: 'on SIGTERM, requests under way may take this many seconds to finish',
    }),
    sandbox_logs: choice(['on', 'off'], {
      fallback: 'on',
      help: 'whether output of services and commands is logged on disk',
    }),
    sandbox_log_max_bytes: bytes(MIB, 1024 * GIB, {
      fallback: 64 * MIB,
      help: 'most that the log of one sandbox takes; its oldest records go first',
    }),
    sandbox_log_retention_s: integer(0, 2 ** 31 - 1, {
      fallback: 7 * 86_400,
      help: 'the log of a deleted sandbox is kept for this many seconds',
    }),
    sandbox_log_retention_bytes: bytes(0, 1024 * GIB, {
      fallback: 8 * GIB,
      help: 'most that the logs of deleted sandboxes take together; the oldest go first',
    }),
    network_subnet: subnet({
      fallback: 'auto',
      help: 'addresses of sandboxes, four for each that has a network; auto takes a range that the host has no route to',
    }),
    network_allow_range: ranges({
      fallback: [],
      help: 'let names lead to addresses of this range although it is not the internet, such as 10.1.0.0/16; may be given more than once',
    }),
    publish_ports: portRanges({
      fallback: [],
      help: 'ports of the host that keys with a policy or a tenant may publish where their policy does not say which, such as 8000-8999; by default those from 1024 on that the host takes for no connection outward',
    }),
    dns_upstream: nameServers({
      fallback: [],
      help: 'ask this name server for sandboxes, not those of the host; may be given more than once',
    }),
    audit: choice(['on', 'off'], {
      fallback: 'on',
      help: 'whether who did what, and what was refused, is written down in audit/ of the data directory',
    }),
    audit_max_bytes: bytes(8 * MIB, 1024 * GIB, {
      fallback: GIB,
      help: 'most that the audit trail takes; its oldest file, an eighth of it, goes first',
    }),
    events_keep_s: integer(60, 2 ** 31 - 1, {
      fallback: 7 * 86_400,
      help: 'what happened is kept for this many seconds, for those who follow it',
    }),
    events_keep_bytes: bytes(64 * 1024, GIB, {
      fallback: 32 * MIB,
      help: 'most that kept events take; the oldest go first',
    }),
    metrics_listen: listenAddress({
      help: 'serve GET /metrics on an address of its own, too, which has nothing else of the API',
    }),
    metrics_top_sandboxes: integer(0, 1000, {
      fallback: 20,
      help: 'sandboxes with metrics of their own, those that use most; the others are counted together',
    }),
    log_level: choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal'], {
      fallback: 'info',
      help: 'least severe line to log',
    }),
    log_format: choice(['auto', 'json', 'pretty'], {
      fallback: 'auto',
      help: 'auto is pretty on a terminal and JSON elsewhere',
    }),
  };
}

export type Settings = ReturnType<typeof createSettings>;
export type SettingKey = keyof Settings;

/** Those that have no value unless given. */
type OptionalKey =
  | 'kernel'
  | 'initrd'
  | 'socket_owner'
  | 'tls_cert'
  | 'tls_key'
  | 'tls_client_ca'
  | 'metrics_listen';

/** Every setting's value, by the file's key. */
export type SettingValues = {
  [K in SettingKey]: Settings[K] extends { schema: { _output: infer T } }
    ? K extends OptionalKey
      ? T | undefined
      : T
    : never;
};

/** One for each engine; they are read by their names. */
function programSettings(engineNames: readonly string[]): Record<never, never> {
  return Object.fromEntries(
    engineNames.map((name) => [
      toProgramKey(name),
      path({ help: `program of the ${name} engine, instead of the one that PATH finds` }),
    ]),
  );
}

/** Key of the setting with an engine's program. */
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
