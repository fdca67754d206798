// A paused sandbox without a guest: its memory is that of a process that maps a file as a VMM does.
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GuestMemory, SaveOptions, Vm, WrittenVm } from '../../host-agent/src/engines/engine.ts';
import { mapsFile, PAGE_BYTES, versionKey } from '../../host-agent/src/engines/mapping.ts';
import { logOwnPages } from '../../host-agent/src/engines/page-log.ts';
import type { FaultPoint } from '../../host-agent/src/lib/faults.ts';
import type { EarlierCopy } from '../../host-agent/src/sandboxes/saved/earlier-copy.ts';
import {
  markAwake,
  openPaused,
  pausedDir,
  pauseGuest,
  settlePaused,
} from '../../host-agent/src/sandboxes/saved/paused.ts';
import { Pager } from './pager.ts';

export const PAGES = 700;
export const SIZE = PAGES * PAGE_BYTES;

/** A sandbox's directory, and a guest in it whose memory is a process's. */
export class PagedSleeper {
  readonly dir: string;
  readonly #program: string;
  /** What the guest's memory is to be. */
  readonly memory = Buffer.alloc(SIZE);
  readonly done: string[] = [];
  /** The save fails behind its commit. */
  failsAtEnd = false;
  onReach: (point: FaultPoint) => void = () => undefined;
  #pager: Pager | undefined;
  #mapped: GuestMemory = { kind: 'anonymous' };

  /** `program`: see Pager. */
  constructor(program: string, dir: string) {
    this.#program = program;
    this.dir = dir;
    writeFileSync(this.layerPath, 'layer');
  }

  get paused(): string {
    return pausedDir(this.dir);
  }

  get layerPath(): string {
    return join(this.dir, 'layer.ext4');
  }

  readonly faults = { reach: (point: FaultPoint) => this.onReach(point) };

  async write(offset: number, length: number, byte: number): Promise<void> {
    await this.#pager?.write(offset, length, byte);
    this.memory.fill(byte, offset, offset + length);
  }

  /** Of the VMM that runs now; another one has another. */
  #vm: Vm | undefined;

  get vm(): Vm {
    this.#vm ??= { save: (options: SaveOptions) => this.#save(options) } as unknown as Vm;
    return this.#vm;
  }

  pause(signal?: AbortSignal, since?: EarlierCopy) {
    return pauseGuest({
      dir: this.paused,
      vm: this.vm,
      since,
      guest: {
        hold: async () => true,
        release: () => void this.done.push('release'),
        stepClock: () => void this.done.push('step clock'),
      },
      layerPath: this.layerPath,
      memoryBytes: SIZE,
      compatibility: { engine: 'x' },
      faults: this.faults,
      ...(signal && { signal }),
    });
  }

  settle(): Promise<number> {
    return settlePaused(this.paused, this.faults);
  }

  async end(): Promise<void> {
    await this.#pager?.end();
    this.#pager = undefined;
    this.#vm = undefined;
  }

  /** The memory that a resumed guest has. */
  async wake(): Promise<Buffer> {
    const { vm } = await openPaused(this.paused, this.layerPath, this.faults);
    this.#pager = await Pager.start(this.#program, vm.memoryPath, SIZE);
    const key = versionKey(statSync(vm.memoryPath));
    this.#mapped = { kind: 'copy-on-write', path: vm.memoryPath, origin: { path: vm.memoryPath, key } };
    await markAwake(this.paused, this.faults);
    return readFileSync(vm.memoryPath);
  }

  /** In the order of a VM of an engine. */
  async #save({
    dir,
    memoryBytes,
    base,
    since,
    beforePause,
    whilePaused,
    afterPause,
    commit,
  }: SaveOptions): Promise<WrittenVm> {
    const statePath = join(dir, 'state');
    const paths = { memoryPath: join(dir, 'memory'), statePath };
    const pager = this.#pager;
    const mapped = (await mapsFile(this.#mapped, base ?? '')) ? base : undefined;
    const known = pager && (since ?? mapped);
    try {
      await beforePause?.();
      this.done.push('pause');
      try {
        const changesPath = join(dir, 'changes');
        if (pager !== undefined && known !== undefined) {
          const { pid, mappings } = pager;
          await logOwnPages({ pid, mappings, memoryBytes, base: known, target: changesPath });
        } else writeFileSync(paths.memoryPath, this.memory);
        writeFileSync(statePath, `state ${this.done.length}`);
        await whilePaused();
        const written = { ...paths, ...(known && { memoryPath: known, changesPath }), pausedMs: 1 };
        await commit?.(written);
        if (this.failsAtEnd) throw new Error('a VMM that ends');
        return written;
      } catch (error) {
        if (!this.failsAtEnd) this.done.push('run on');
        throw error;
      }
    } finally {
      afterPause?.();
    }
  }
}
