// The VM of a fake VMM: the effect of each endpoint in each state.
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, openSync, statSync, truncateSync } from 'node:fs';
import { hashText } from '../../../host-agent/src/engines/trial.ts';
import { type FakeDisk, findDisks, lockDisks, SECTOR_BYTES, sectorsOf } from './disks.ts';
import type { EventLog } from './events.ts';
import { FakeGuest, type GuestMemory, printConsole } from './guest.ts';
import { type Fault, readKnobs } from './knobs.ts';
import { apiError, noVm, osError } from './refusal.ts';
import {
  type DiskStates,
  directoryOf,
  type FakeConfig,
  memoryBytes,
  readSnapshot,
  writeSnapshot,
} from './snapshot.ts';
import { FakeVsock, isGuestUp } from './vsock.ts';

type Running = {
  state: 'Running' | 'Paused';
  readonly guest: FakeGuest;
  readonly vsock: FakeVsock | undefined;
  readonly unlock: () => void;
  readonly disks: DiskStates;
  readonly counting: NodeJS.Timeout | undefined;
  /** Until this time, its memory is still loaded from the source. */
  readonly filledAt: number;
};

export class FakeMachine {
  readonly #events: EventLog;
  #consoleFd: number | undefined;
  /** Exits the process, gracefully or not. */
  readonly #exit: (code: number) => void;
  #config: FakeConfig | undefined;
  #vm: Running | undefined;
  #areVcpusStuck = false;

  constructor(events: EventLog, exit: (code: number) => void) {
    this.#events = events;
    this.#exit = exit;
  }

  create(config: FakeConfig): void {
    if (this.#config !== undefined) throw apiError('The VM could not be created', 'VM is already created');
    // Stored before any failure.
    this.#config = config;
    this.#createConsole(config, 'The VM could not be created');
  }

  async boot(): Promise<void> {
    if (this.#vm !== undefined) throw apiError('The VM could not boot', 'VM is already created');
    if (this.#config === undefined) throw noVm(readKnobs().version, 'The VM could not boot');
    this.#events.add('vm', 'booting');
    await this.#start(this.#config, { bootId: randomBytes(8).toString('hex'), hostname: '', clockSteps: 0 });
    this.#events.add('vm', 'booted');
    const { isConsoleSilent } = readKnobs();
    const { cmdline } = this.#config.payload ?? {};
    if (!isConsoleSilent)
      this.#print(`[    0.000000] Linux version 6.1.0-fake\n[    0.0] Command line: ${cmdline}\n`);
  }

  pause(fault?: Fault): void {
    const vm = this.#running('The VM could not be paused');
    this.#events.add('vm', 'pausing');
    if (vm.state === 'Paused')
      throw apiError(
        'The VM could not be paused',
        'Invalid transition: InvalidStateTransition(Paused, Paused)',
      );
    vm.guest.pause();
    if (fault?.kind === 'half') {
      this.#areVcpusStuck = true;
      throw apiError(
        'The VM could not be paused',
        'Failed to pause migratable component',
        'Timed out draining block requests',
      );
    }
    this.#areVcpusStuck = false;
    vm.state = 'Paused';
    this.#events.add('vm', 'paused');
  }

  resume(): void {
    const vm = this.#running('The VM could not be resumed');
    if (vm.state !== 'Paused')
      throw apiError(
        'The VM could not be resumed',
        'Invalid transition: InvalidStateTransition(Running, Running)',
      );
    vm.state = 'Running';
    vm.guest.resume();
    this.#events.add('vm', 'resumed');
  }

  snapshot(url: string, fault?: Fault): void {
    const vm = this.#running('The VM could not be snapshotted');
    if (performance.now() < vm.filledAt)
      throw apiError('The VM could not be snapshotted', 'VM on-demand memory restore is still in progress');
    this.#events.add('vm', 'snapshotting');
    if (vm.state !== 'Paused')
      throw apiError('The VM could not be snapshotted', 'Trying to snapshot while VM is running');
    const dir = directoryOf(url);
    const { disks, guest } = vm;
    writeSnapshot(dir, { config: this.#config as FakeConfig, guest: guest.memory, disks }, fault);
    this.#events.add('vm', 'snapshotted');
  }

  async restore(url: string, mode: string, resume: boolean): Promise<void> {
    if (this.#config !== undefined) throw apiError('The VM could not be restored', 'VM is already created');
    this.#events.add('vm', 'restoring');
    try {
      const { config, guest, disks } = readSnapshot(directoryOf(url));
      this.#createConsole(config, 'The VM could not be restored');
      const { hasUserfaultfd } = readKnobs();
      if (mode === 'OnDemand' && !hasUserfaultfd)
        throw apiError(
          'The VM could not be restored',
          'On-demand restore failed',
          'Failed to create userfaultfd',
          'Operation not permitted (os error 1)',
        );
      if (config.memory.zones !== undefined && !readKnobs().canMap)
        throw apiError('The VM could not be restored', 'a fault of mapping');
      // The initramfs is opened again, although it is not used; the kernel is not.
      this.#needFile(config.payload?.initramfs, 'The VM could not be restored');
      this.#config = config;
      await this.#start(config, guest(), disks, mode === 'OnDemand' ? readKnobs().fillMs : 0);
      if (resume) this.resume();
    } catch (error) {
      // The state is rolled back: the same process may retry.
      this.#config = undefined;
      this.#vm = undefined;
      throw error;
    }
    this.#events.add('vm', 'restored');
  }

  resizeDisk(id: string, size: number): void {
    const vm = this.#running('The disk could not be resized');
    const disk = this.#config?.disks?.find((each) => each.id === id);
    if (disk === undefined) throw apiError('The disk could not be resized', `No disk with id ${id}`);
    if (disk.readonly === true) throw apiError('The disk could not be resized', 'The disk is read-only');
    if (size < statSync(disk.path).size)
      throw apiError('The disk could not be resized', 'Shrinking is not supported');
    truncateSync(disk.path, size);
    const state = vm.disks.get(id);
    if (state !== undefined) state.sectors = size / SECTOR_BYTES;
  }

  /** Adds a device: at once in a running VM, otherwise at the next boot. */
  add(
    kind: 'disks' | 'net',
    device: { readonly id?: string },
  ): { readonly id: string; readonly bdf: string } | undefined {
    if (this.#config === undefined)
      throw noVm(readKnobs().version, 'The device could not be added to the VM');
    const there = (this.#config[kind] ?? []) as readonly { readonly id?: string }[];
    const id = device.id ?? '_device0';
    if (there.some((each) => each.id === id))
      throw apiError('The device could not be added to the VM', `Identifier ${id} is not unique`);
    this.#config = { ...this.#config, [kind]: [...there, device] };
    return this.#vm === undefined ? undefined : { id, bdf: '0000:00:07.0' };
  }

  delete(): void {
    if (this.#config === undefined) return;
    if (this.#vm !== undefined) this.#shutDown();
    this.#config = undefined;
    this.#events.add('vm', 'deleted');
  }

  shutdown(): void {
    this.#running('The VM could not shutdown');
    this.#shutDown();
  }

  info(): Record<string, unknown> {
    if (this.#config === undefined) throw noVm(readKnobs().version, 'The VM info is not available');
    const state = readKnobs().shownState ?? this.#vm?.state ?? 'Created';
    return { config: this.#config, state, memory_actual_size: memoryBytes(this.#config), device_tree: null };
  }

  /** The guest powers off by itself. */
  powerOff(): void {
    this.delete();
    setTimeout(() => this.#exit(0), readKnobs().endMs);
  }

  /** The VMM gets a panic event and takes no action. */
  panic(): void {
    this.#vm?.guest.pause();
    this.#events.add('guest', 'panic');
  }

  async reset(lastWords: string): Promise<void> {
    const config = this.#config;
    const vm = this.#vm;
    if (config === undefined || vm === undefined) return;
    if (lastWords !== '') this.#print(lastWords);
    this.#events.add('vm', 'rebooting');
    this.#stop();
    try {
      this.#createConsole(config, 'The VM could not reboot');
      await this.#start(config, { bootId: randomBytes(8).toString('hex'), hostname: '', clockSteps: 0 });
      this.#events.add('vm', 'rebooted');
    } catch (error) {
      process.stderr.write(`cloud-hypervisor: ${String(error)}\n`);
      this.#exit(1);
    }
  }

  /** `saved`: disk states of a snapshot; absent on a cold boot. */
  async #start(config: FakeConfig, memory: GuestMemory, saved?: DiskStates, fillMs = 0): Promise<void> {
    const isBoot = saved === undefined;
    const { locksDir } = readKnobs();
    this.#checkDisks(config);
    if (isBoot) {
      this.#needFile(config.payload?.kernel, 'The VM could not boot');
      this.#needFile(config.payload?.initramfs, 'The VM could not boot');
    }
    const { vsock: vsockConfig } = config;
    if (vsockConfig !== undefined && [0, 1, 2, 0xffffffff].includes(vsockConfig.cid))
      throw apiError(
        'The VM could not boot',
        'Error validating configuration',
        `CID ${vsockConfig.cid} is reserved`,
      );
    const unlock = lockDisks(locksDir, (config.disks ?? []) as FakeDisk[]);
    try {
      const disks = saved ?? findDisks(config);
      const guest = new FakeGuest(memory, {
        powerOff: () => this.powerOff(),
        takeDisks: () => this.#takeDisks(disks),
      });
      const startedAt = isBoot ? performance.now() : Number.NEGATIVE_INFINITY;
      const vsock =
        vsockConfig &&
        (await FakeVsock.listen({
          path: vsockConfig.socket,
          isUp: () => isGuestUp(startedAt) && !this.#areVcpusStuck,
          accept: (socket) => guest.accept(socket),
        }));
      this.#vm = {
        state: isBoot ? 'Running' : 'Paused',
        guest,
        vsock,
        unlock,
        disks,
        counting: this.#count(config, memory, isBoot),
        filledAt: performance.now() + fillMs,
      };
      if (!isBoot) guest.pause();
    } catch (error) {
      unlock();
      throw error;
    }
  }

  /**
   * The guest's drivers bind to unbound disks, whose reported size must be right. Returns why there is no root, if so.
   */
  #takeDisks(disks: DiskStates): string | undefined {
    for (const { id = '', path } of this.#config?.disks ?? []) {
      const disk = disks.get(id);
      if (disk === undefined) return `no ${id}`;
      if (disk.sectors !== sectorsOf(path)) return `${id} has ${disk.sectors} sectors`;
      disk.isTaken = true;
    }
    return undefined;
  }

  /** Counts as our own init does in a probe guest. */
  #count(config: FakeConfig, memory: GuestMemory, isBoot: boolean): NodeJS.Timeout | undefined {
    const nonce = /sandbox\.probe=(\S+)/.exec(config.payload?.cmdline ?? '')?.[1];
    const { trial, isConsoleSilent } = readKnobs();
    if (nonce === undefined || isConsoleSilent || trial === 'dies') return undefined;
    if (!isBoot && trial === 'freezes') return undefined;
    if (!isBoot && trial === 'forgets') memory.count = 0;
    const step = (): void => {
      if (this.#vm?.state !== 'Running') return;
      memory.count = (memory.count ?? 0) + 1;
      this.#print(`sandbox-probe: ${hashText(nonce)} ${memory.count}.\n`);
    };
    return setInterval(step, trial === 'crawls' ? 1000 : 10);
  }

  #shutDown(): void {
    // Connections stay open until the event is written.
    this.#events.add('vm', 'shutdown');
    this.#stop();
  }

  #stop(): void {
    this.#vm?.guest.end();
    this.#vm?.vsock?.close();
    clearInterval(this.#vm?.counting);
    this.#vm?.unlock();
    this.#vm = undefined;
  }

  #running(what: string): Running {
    if (this.#vm === undefined) throw apiError(what, 'VM is not running');
    return this.#vm;
  }

  #checkDisks(config: FakeConfig): void {
    for (const disk of config.disks ?? []) {
      if (disk.image_type !== 'Raw')
        throw apiError('The VM could not boot', 'the fake takes raw images only');
      if ((disk.num_queues ?? 1) > (config.cpus as { boot_vcpus: number }).boot_vcpus)
        throw apiError(
          'The VM could not boot',
          'Error validating configuration',
          'Number of queues exceeds the number of vCPUs',
        );
    }
  }

  #needFile(path: string | undefined, what: string): void {
    if (path !== undefined && existsSync(path)) return;
    throw apiError(what, `Error opening ${path}`, 'No such file or directory (os error 2)');
  }

  /** Truncated whenever the devices are created, also when the guest resets itself. */
  #createConsole(config: FakeConfig, what: string): void {
    const { serial } = config;
    if (serial?.mode !== 'File') return;
    try {
      if (this.#consoleFd !== undefined) closeSync(this.#consoleFd);
      this.#consoleFd = openSync(serial.file ?? '', 'w', 0o600);
    } catch (error) {
      this.#consoleFd = undefined;
      throw apiError(what, 'Error creating console devices', osError(error));
    }
  }

  #print(text: string): void {
    if (this.#consoleFd !== undefined) printConsole(`/proc/self/fd/${this.#consoleFd}`, text);
  }
}
