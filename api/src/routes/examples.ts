// Sample ids and objects that the examples of several routes share.

export const SANDBOX_ID = 'sbx_0rh192ptsimae';
export const SNAPSHOT_ID = 'snap_5l2k8q0vb3c1e';

export const COMMAND_ID = 'cmd_6qk1v0m2b9d4s';

export const EXEC_RESULT = { exit_code: 0, duration_ms: 1212 };

export const COMMAND = {
  id: COMMAND_ID,
  state: 'running',
  cmd: ['sleep', '1000'],
  detached: true,
  pid: 97,
  started_at: '2026-03-14T15:09:26.535Z',
  output: { first_seq: 0, next_seq: 0, dropped_bytes: 0 },
};

export const SANDBOX = {
  id: SANDBOX_ID,
  name: 'build-17',
  labels: { team: 'compilers' },
  state: 'running',
  created_at: '2026-03-14T15:09:26.535Z',
  expires_at: '2026-03-14T15:19:26.535Z',
  last_used_at: '2026-03-14T15:09:26.535Z',
  timeout_s: 600,
  idle_timeout_s: 0,
  idle_action: 'delete',
  timeout_action: 'delete',
  auto_resume: true,
  disk_bytes: 4_294_967_296,
  memory_mib: 512,
  vcpus: 1,
  profile: 'base',
  workdir: `/var/lib/sandboxd/sandboxes/${SANDBOX_ID}`,
};

export const PAUSED_SANDBOX = { ...SANDBOX, state: 'paused', paused_at: '2026-03-14T15:12:31.004Z' };

export const SNAPSHOT = {
  id: SNAPSHOT_ID,
  created_at: '2026-03-14T15:10:02.120Z',
  source_id: SANDBOX_ID,
  dir: `/var/lib/sandboxd/snapshots/${SNAPSHOT_ID}`,
  mem_path: `/var/lib/sandboxd/snapshots/${SNAPSHOT_ID}/memory`,
  rootfs_path: `/var/lib/sandboxd/snapshots/${SNAPSHOT_ID}/disk`,
  state_path: `/var/lib/sandboxd/snapshots/${SNAPSHOT_ID}/state`,
  memory_mib: 512,
  vcpus: 1,
};

export const IMAGE = {
  digest: `sha256:${'1f0c'.repeat(16)}`,
  source_ref: 'docker.io/library/nginx:alpine',
  entrypoint: ['/docker-entrypoint.sh'],
  cmd: ['nginx', '-g', 'daemon off;'],
  exposed_ports: ['80/tcp'],
  convert_mode: 'ext4',
  converted_at_unix_ms: 1_773_500_966_535,
};

export const SERVICE_SPEC = { cmd: ['sleep', '1000'], restart: { policy: 'on-failure', max_retries: 3 } };

export const SERVICE_STATUS = {
  state: 'running',
  pid: 73,
  restarts: 0,
  spec: {
    ...SERVICE_SPEC,
    log_buffer_bytes: 2_097_152,
    stop_grace_s: 10,
    stop_signal: 'SIGTERM',
  },
  started_at_unix_ms: 1_773_500_970_000,
  uptime_ms: 12,
};

export const SANDBOX_STATS = {
  id: SANDBOX_ID,
  read_at: '2026-03-14T15:09:26.535Z',
  vcpus: 1,
  cpu_us: 1_840_000,
  memory_limit_bytes: 536_870_912,
  resident_bytes: 187_695_104,
  private_bytes: 41_943_040,
  disk_limit_bytes: 4_294_967_296,
  layer_bytes: 12_582_912,
  read_bytes: 4_096_000,
  written_bytes: 1_048_576,
  network: { received_bytes: 5120, received_packets: 12, sent_bytes: 2048, sent_packets: 10 },
};

export const EVENT = {
  id: '0rh192pt-31',
  at: '2026-03-14T15:09:26.535Z',
  kind: 'created',
  sandbox: SANDBOX_ID,
  origin: 'template',
  duration_ms: 84,
};
