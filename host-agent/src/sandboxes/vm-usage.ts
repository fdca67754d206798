// Resource usage of VMs on the host, read from VMM process, tap and writable layer without the engine; for metrics, of
// the top users.
import { statSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import type { Vm } from '../engines/engine.ts';
import { type LinkUsage, type ProcessUsage, readLinkUsage, readProcessUsage } from '../lib/process-usage.ts';
import type { SandboxRecord } from './record.ts';

const SECTOR_BYTES = 512;

export type VmUsage = ProcessUsage & {
  /** Disk space of its writable layer. */
  readonly layerBytes: number;
  /** From the guest's side: received is inbound to the guest. Absent: it has no network. */
  readonly network?: LinkUsage;
};

export type UsageSource = {
  /** Undefined while it is paused. */
  readonly running: { readonly vm: Pick<Vm, 'exit' | 'identity'> } | undefined;
  readonly record: Pick<SandboxRecord, 'network'>;
  readonly paths: { readonly layerPath: string };
};

/** Undefined when its VMM has exited. Takes some 100 µs. */
export function readVmUsage({ running, record, paths }: UsageSource): VmUsage | undefined {
  if (running === undefined || running.vm.exit !== undefined) return undefined;
  const { vm } = running;
  const usage = readProcessUsage(vm.identity);
  if (usage === undefined) return undefined;
  const layerBytes = readLayerBytes(paths);
  const link = record.network && readLinkUsage(vm.identity.pid, record.network.tap);
  return { ...usage, layerBytes, ...(link && { network: toGuestSide(link) }) };
}

/** Of a paused sandbox. */
export function usageWithoutVm(paths: UsageSource['paths']): VmUsage {
  const layerBytes = readLayerBytes(paths);
  return { cpuMs: 0, residentBytes: 0, privateBytes: 0, readBytes: 0, writtenBytes: 0, layerBytes };
}

function readLayerBytes({ layerPath }: UsageSource['paths']): number {
  return (statSync(layerPath, { throwIfNoEntry: false })?.blocks ?? 0) * SECTOR_BYTES;
}

/** Bytes that the host's side of a tap sends are received by the guest. */
function toGuestSide(link: LinkUsage): LinkUsage {
  return {
    receivedBytes: link.sentBytes,
    receivedPackets: link.sentPackets,
    sentBytes: link.receivedBytes,
    sentPackets: link.receivedPackets,
  };
}

/** Sandboxes read in one turn of the event loop. */
const SLICE = 32;
/** Readings younger than this are reused. */
const FRESH_MS = 1000;

/** Values that only grow. */
const COUNTERS = ['cpuMs', 'readBytes', 'writtenBytes', 'receivedBytes', 'sentBytes'] as const;
export type Counters = Readonly<Record<(typeof COUNTERS)[number], number>>;
export type Gauges = Readonly<Record<'residentBytes' | 'privateBytes' | 'layerBytes', number>>;

/** `sandbox`: an id, or REST. */
export type Row = { readonly sandbox: string; readonly counters: Counters; readonly gauges: Gauges };
export const REST = 'rest';

const NOTHING: Counters = { cpuMs: 0, readBytes: 0, writtenBytes: 0, receivedBytes: 0, sentBytes: 0 };
const NO_GAUGES: Gauges = { residentBytes: 0, privateBytes: 0, layerBytes: 0 };

type MeasuredSandbox = UsageSource & { readonly id: string };

export class TopUsage {
  readonly #sandboxes: () => Iterable<MeasuredSandbox>;
  readonly #top: number;
  readonly #read: (sandbox: MeasuredSandbox) => VmUsage | undefined;
  #last = new Map<string, Counters>();
  /** Sum of what sandboxes used while they were part of the rest. It never falls, although its members change. */
  #rest = NOTHING;
  #rows: readonly Row[] = [];
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(
    sandboxes: () => Iterable<MeasuredSandbox>,
    top: number,
    read: (sandbox: MeasuredSandbox) => VmUsage | undefined = readVmUsage,
  ) {
    this.#sandboxes = sandboxes;
    this.#top = top;
    this.#read = read;
  }

  /** As of the last refresh; the rest is the last row. */
  get rows(): readonly Row[] {
    return this.#rows;
  }

  refresh(): Promise<void> {
    if (performance.now() - this.#readAt < FRESH_MS) return Promise.resolve();
    this.#reading ??= this.#refresh().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #refresh(): Promise<void> {
    const found: (Row & { readonly grown: Counters })[] = [];
    let count = 0;
    for (const sandbox of [...this.#sandboxes()]) {
      if (++count % SLICE === 0) await setImmediate();
      const usage = this.#read(sandbox);
      if (usage === undefined) continue;
      const { cpuMs, readBytes, writtenBytes, residentBytes, privateBytes, layerBytes, network } = usage;
      const { receivedBytes = 0, sentBytes = 0 } = network ?? {};
      const counters = { cpuMs, readBytes, writtenBytes, receivedBytes, sentBytes };
      const before = this.#last.get(sandbox.id) ?? NOTHING;
      const grown = combine(counters, before, (now, then) => Math.max(0, now - then));
      found.push({
        sandbox: sandbox.id,
        counters,
        gauges: { residentBytes, privateBytes, layerBytes },
        grown,
      });
    }
    found.sort((a, b) => b.grown.cpuMs - a.grown.cpuMs || b.gauges.residentBytes - a.gauges.residentBytes);
    const others = found.slice(this.#top);
    for (const { grown } of others) this.#rest = combine(this.#rest, grown, (sum, more) => sum + more);
    const gauges = others.reduce((sum, row) => addGauges(sum, row.gauges), NO_GAUGES);
    const rest = { sandbox: REST, counters: this.#rest, gauges };
    this.#rows = [...found.slice(0, this.#top), rest];
    this.#last = new Map(found.map(({ sandbox, counters }) => [sandbox, counters]));
    this.#readAt = performance.now();
  }
}

function combine(a: Counters, b: Counters, each: (a: number, b: number) => number): Counters {
  return Object.fromEntries(COUNTERS.map((name) => [name, each(a[name], b[name])])) as Counters;
}

function addGauges(a: Gauges, b: Gauges): Gauges {
  return {
    residentBytes: a.residentBytes + b.residentBytes,
    privateBytes: a.privateBytes + b.privateBytes,
    layerBytes: a.layerBytes + b.layerBytes,
  };
}
