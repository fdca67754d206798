// The three files of a snapshot, as the real VMM writes and reads them.
import { closeSync, ftruncateSync, openSync, readFileSync, unlinkSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { GuestMemory } from './guest.ts';
import { type Fault, readKnobs } from './knobs.ts';
import { apiError, osError, Refusal } from './refusal.ts';

/** The start of the memory holds the guest's state; in a dense file, the rest is written as zeros. */
const PIECE = Buffer.alloc(1 << 20);

export type FakeConfig = Record<string, unknown> & {
  readonly memory: {
    readonly size: number;
    readonly zones?: readonly { readonly id: string; readonly size: number; readonly file?: string }[];
  };
  readonly disks?: readonly {
    readonly id?: string;
    readonly path: string;
    readonly readonly?: boolean;
    readonly num_queues?: number;
    readonly image_type?: string;
  }[];
  readonly net?: readonly { readonly id?: string; readonly tap?: string }[] | null;
  readonly vsock?: { readonly id?: string; readonly cid: number; readonly socket: string };
  readonly serial?: { readonly mode: string; readonly file?: string };
  readonly payload?: { readonly kernel?: string; readonly initramfs?: string; readonly cmdline?: string };
};

/** The real VMM's state of a disk: the size is that of the file only in a VM that was cold-booted. */
type DiskState = { sectors: number; isTaken: boolean };
export type DiskStates = Map<string, DiskState>;

type State = {
  readonly version: string;
  readonly cpu: string;
  readonly deviceIds: readonly string[];
};

export function directoryOf(url: string): string {
  const path = /^file:\/\/(\/.*)$/.exec(url)?.[1];
  if (path === undefined) throw apiError('The VM could not be snapshotted', 'Invalid URL', url);
  return path;
}

function deviceIds(config: FakeConfig): string[] {
  const { disks = [], net, vsock } = config;
  return [...disks, ...(net ?? []), ...(vsock ? [vsock] : [])].map(({ id }) => id ?? '?').sort();
}

type Written = { readonly config: FakeConfig; readonly guest: GuestMemory; readonly disks: DiskStates };

export function writeSnapshot(dir: string, { config, guest, disks }: Written, fault?: Fault): void {
  const { version, cpu } = readKnobs();
  const size = memoryBytes(config);
  writeNew(join(dir, 'config.json'), JSON.stringify(withDefaults(config)));
  const state: State = { version, cpu, deviceIds: deviceIds(config) };
  const text = JSON.stringify({
    snapshots: {
      'memory-manager': {
        snapshots: {},
        snapshot_data: {
          // Numbers here may have more digits than a double.
          state: `{"memory_ranges":{"data":[{"gpa":0,"length":${size}}]},"guest_ram_mappings":[{"slot":0,"gpa":0,"size":${size},"zone_id":"mem0","virtio_mem":false,"file_offset":0}],"start_of_device_area":18446744073709551615}`,
        },
      },
      'device-manager': {
        snapshots: writeDisks(config, disks),
        snapshot_data: { state: JSON.stringify(state) },
      },
    },
    snapshot_data: { state: '{"clock":null}' },
  });
  if (fault?.kind === 'half') {
    writeNew(join(dir, 'state.json'), text.slice(0, 40));
    throw apiError(
      'The VM could not be snapshotted',
      'Failed to send migratable component snapshot',
      'No space left on device (os error 28)',
    );
  }
  writeNew(join(dir, 'state.json'), text);
  if (fault?.kind === 'hoard') writeNew(join(dir, 'more'), text);
  if (fault?.kind === 'keep') {
    writeNew(join(dir, 'hidden'), text);
    openSync(join(dir, 'hidden'), 'r+');
    unlinkSync(join(dir, 'hidden'));
  }
  const fd = openNew(join(dir, 'memory-ranges'), 'memory snapshot file ');
  ftruncateSync(fd, size);
  for (let at = 0; at < size; at += PIECE.length)
    writeSync(fd, PIECE, 0, Math.min(PIECE.length, size - at), at);
  writeSync(fd, Buffer.from(`${JSON.stringify(guest)}\n`), 0, undefined, 0);
  closeSync(fd);
}

type Node = { readonly snapshots: Record<string, Node>; readonly snapshot_data: { readonly state: string } };

/** Two parts for each disk: the device on the bus, and the disk itself. */
function writeDisks(config: FakeConfig, disks: DiskStates): Record<string, Node> {
  const nodes: Record<string, Node> = {};
  for (const { id = '?', path } of config.disks ?? []) {
    const { sectors = 0, isTaken = true } = disks.get(id) ?? {};
    const node = (state: object): Node => ({
      snapshots: {},
      snapshot_data: { state: JSON.stringify(state) },
    });
    nodes[`_virtio-pci-${id}`] = node({ device_activated: isTaken, queues: [], interrupt_status: 0 });
    nodes[id] = node({
      disk_path: path,
      disk_nsectors: sectors,
      avail_features: 5637144576,
      acked_features: 4563402752,
      config: { capacity: sectors, size_max: 0, geometry: { cylinders: 0, heads: 0, sectors: 0 } },
    });
  }
  return nodes;
}

function readDisks(devices: Node | undefined): DiskStates {
  const disks: DiskStates = new Map();
  const stateOf = (id: string): Record<string, unknown> =>
    JSON.parse(devices?.snapshots[id]?.snapshot_data.state ?? '{}') as Record<string, unknown>;
  for (const id of Object.keys(devices?.snapshots ?? {})) {
    if (id.startsWith('_')) continue;
    const { disk_nsectors: sectors, config } = stateOf(id);
    // The real VMM accepts them, and its guest gets errors beyond the smaller size.
    if (sectors !== (config as { capacity?: unknown }).capacity)
      throw apiError('The VM could not be restored', `the fake: ${id} has two sizes`);
    disks.set(id, {
      sectors: Number(sectors),
      isTaken: stateOf(`_virtio-pci-${id}`).device_activated === true,
    });
  }
  return disks;
}

export function readSnapshot(dir: string): {
  config: FakeConfig;
  disks: DiskStates;
  guest: () => GuestMemory;
} {
  const config = JSON.parse(readText(join(dir, 'config.json'))) as FakeConfig;
  const stateText = readText(join(dir, 'state.json'));
  const { version, cpu } = readKnobs();
  const outer = JSON.parse(stateText) as Node;
  const state = JSON.parse(outer.snapshots['device-manager']?.snapshot_data.state ?? '') as State;
  if (!stateText.includes('18446744073709551615'))
    throw apiError('The VM could not be restored', 'state.json was changed: a number lost digits');
  if (state.version !== version)
    throw apiError(
      'The VM could not be restored',
      'Failed to deserialize',
      'invalid type: map, expected a sequence',
    );
  if (state.cpu !== cpu)
    throw apiError('The VM could not be restored', 'Error checking cpu feature compatibility');
  if (JSON.stringify(state.deviceIds) !== JSON.stringify(deviceIds(config)))
    throw apiError(
      'The VM could not be restored',
      'Error from device manager',
      'Missing PCI device in snapshot',
    );
  const hasZones = config.memory.zones !== undefined;
  if (hasZones !== (config.memory.size === 0))
    throw apiError(
      'The VM could not be restored',
      'User defined memory regions can’t be provided if the memory size is not 0',
    );
  const memory = outer.snapshots['memory-manager']?.snapshot_data.state ?? '';
  const isRead = !memory.includes('"memory_ranges":{"data":[]}');
  // Memory that is a mapping is not read; plain memory would be empty.
  if (!isRead && !hasZones)
    throw apiError('The VM could not be restored', 'the fake: its memory would be empty');
  return {
    config,
    disks: readDisks(outer.snapshots['device-manager']),
    guest: () => {
      const text = readText(isRead ? join(dir, 'memory-ranges') : (config.memory.zones?.[0]?.file ?? ''));
      return JSON.parse(text.slice(0, text.indexOf('\n'))) as GuestMemory;
    },
  };
}

export function memoryBytes({ memory }: FakeConfig): number {
  return (memory.zones ?? []).reduce((sum, zone) => sum + zone.size, memory.size);
}

/** The real VMM writes every key that it knows, and one that only some builds have. */
function withDefaults(config: FakeConfig): FakeConfig {
  return {
    rng: { id: null, iommu: false, pci_segment: 0, src: '/dev/urandom' },
    pvpanic: false,
    watchdog: false,
    iommu: false,
    rtc: null,
    ...config,
    disks: config.disks?.map((disk) => ({
      direct: false,
      serial: null,
      sparse: true,
      pci_segment: 0,
      ...disk,
    })),
  } as FakeConfig;
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch (error) {
    throw apiError('The VM could not be restored', `Error opening ${path}`, osError(error));
  }
}

function openNew(path: string, what = ''): number {
  try {
    return openSync(path, 'wx', 0o600);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw apiError('The VM could not be snapshotted', `Error creating ${what}"${path}"`, osError(error));
  }
}

function writeNew(path: string, text: string): void {
  const fd = openNew(path);
  writeSync(fd, text);
  closeSync(fd);
}
