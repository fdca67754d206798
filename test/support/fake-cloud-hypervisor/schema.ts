// Allowed keys and values of requests. Stricter than the real VMM, which ignores a misspelt key.
import { Refusal } from './refusal.ts';

type Check = (value: unknown, path: string) => void;

function bad(path: string, what: string): never {
  throw new Refusal(400, ['Failed to deserialize JSON', `${path}: ${what}`]);
}

const text: Check = (value, path) => {
  if (typeof value !== 'string') bad(path, 'expected a string');
};
const flag: Check = (value, path) => {
  if (typeof value !== 'boolean') bad(path, 'expected a boolean');
};
const count: Check = (value, path) => {
  if (!Number.isSafeInteger(value) || Number(value) < 0) bad(path, 'expected an unsigned integer');
};
const nothing: Check = (value, path) => {
  if (value !== null) bad(path, 'expected null');
};
const anything: Check = () => undefined;

function variant(...names: readonly string[]): Check {
  return (value, path) => {
    if (names.includes(String(value))) return;
    bad(path, `unknown variant \`${value}\`, expected ${names.map((name) => `\`${name}\``).join(' or ')}`);
  };
}

function list(item: Check): Check {
  return (value, path) => {
    if (!Array.isArray(value)) bad(path, 'expected a sequence');
    for (const [index, each] of value.entries()) item(each, `${path}[${index}]`);
  };
}

function object(required: Record<string, Check>, optional: Record<string, Check> = {}): Check {
  return (value, path) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) bad(path, 'expected a map');
    const fields = value as Record<string, unknown>;
    for (const key of Object.keys(required)) if (!(key in fields)) bad(path, `missing field \`${key}\``);
    for (const [key, field] of Object.entries(fields)) {
      const check = required[key] ?? optional[key];
      if (check === undefined) bad(path, `unknown field \`${key}\` (a real VMM would ignore it silently)`);
      check(field, `${path}.${key}`);
    }
  };
}

function orNull(check: Check): Check {
  return (value, path) => (value === null ? undefined : check(value, path));
}

const pci = { id: orNull(text), iommu: flag, pci_segment: count, pci_device_id: orNull(count) };
const mode = variant('Off', 'Pty', 'Tty', 'File', 'Socket', 'Null');
const console_ = object({ mode }, { file: orNull(text), socket: orNull(text), ...pci });

export const disk = object(
  { path: text, image_type: variant('Raw', 'Qcow2', 'FixedVhd', 'Vhdx', 'Unknown') },
  {
    ...pci,
    readonly: flag,
    direct: flag,
    num_queues: count,
    queue_size: count,
    vhost_user: flag,
    vhost_socket: orNull(text),
    rate_limit_group: orNull(text),
    rate_limiter_config: orNull(anything),
    serial: orNull(text),
    queue_affinity: orNull(anything),
    backing_files: flag,
    sparse: flag,
    lock_granularity: variant('ByteRange', 'Full'),
    disable_io_uring: flag,
    disable_aio: flag,
  },
);

export const net = object(
  { id: text, tap: text, mac: text },
  {
    ...pci,
    ip: orNull(text),
    mask: orNull(text),
    host_mac: orNull(text),
    mtu: orNull(count),
    num_queues: count,
    queue_size: count,
    vhost_user: flag,
    vhost_socket: orNull(text),
    vhost_mode: text,
    fds: orNull(list(count)),
    rate_limiter_config: orNull(anything),
    offload_tso: flag,
    offload_ufo: flag,
    offload_csum: flag,
  },
);

const zone = object(
  { id: text, size: count },
  { file: orNull(text), shared: flag, hugepages: flag, prefault: flag, reserve: flag, mergeable: flag },
);

export const vmConfig = object(
  {},
  {
    cpus: object(
      { boot_vcpus: count, max_vcpus: count },
      {
        topology: orNull(anything),
        kvm_hyperv: flag,
        max_phys_bits: count,
        affinity: orNull(anything),
        features: anything,
        nested: flag,
        core_scheduling: variant('Vm', 'Vcpu', 'Off'),
        profile: variant('Host'),
      },
    ),
    memory: object(
      { size: count },
      {
        mergeable: flag,
        hotplug_method: variant('Acpi', 'VirtioMem'),
        hotplug_size: orNull(count),
        hotplugged_size: orNull(count),
        shared: flag,
        hugepages: flag,
        hugepage_size: orNull(count),
        prefault: flag,
        reserve: flag,
        zones: orNull(list(zone)),
        thp: flag,
      },
    ),
    payload: object({}, { firmware: orNull(text), kernel: text, cmdline: text, initramfs: text }),
    rate_limit_groups: nothing,
    disks: list(disk),
    net: orNull(list(net)),
    rng: object({ src: text }, pci),
    balloon: nothing,
    fs: nothing,
    pmem: nothing,
    serial: console_,
    console: console_,
    debug_console: object({ mode }, { file: orNull(text), iobase: orNull(count) }),
    devices: nothing,
    user_devices: nothing,
    vdpa: nothing,
    vsock: object({ cid: count, socket: text }, pci),
    pvpanic: flag,
    iommu: flag,
    numa: nothing,
    watchdog: flag,
    rtc: nothing,
    pci_segments: nothing,
    platform: nothing,
    tpm: nothing,
    landlock_enable: flag,
    landlock_rules: orNull(list(object({ path: text, access: variant('r', 'w', 'rw') }))),
  },
);

export const snapshotConfig = object({ destination_url: text });
export const resizeDisk = object({ id: text, desired_size: count });

export function restoreConfig(version: string): Check {
  const modes = version === 'next' ? ['Copy', 'OnDemand', 'CopyOnWrite'] : ['Copy', 'OnDemand'];
  return object(
    { source_url: text },
    {
      prefault: flag,
      memory_restore_mode: variant(...modes),
      net_fds: orNull(list(anything)),
      resume: flag,
    },
  );
}
