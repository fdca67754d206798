// The control protocol of one VMM: requests over its REST interface, and events from a file that is followed.
import { existsSync, watch } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { AGENT_VSOCK_PORT } from '@sandboxd/proto';
import { loadScaledTimeout } from '../../lib/load-scaled-timeout.ts';
import { connectLink, type SocketLink } from '../../lib/socket-link.ts';
import { tailFile } from '../../lib/tail.ts';
import { openRegular } from '../../lib/untrusted-path.ts';
import { deadline } from '../../lib/wait.ts';
import type { Control, Controlled, ControlOptions, GuestState, VmmKind } from '../control.ts';
import type { SaveOptions, WrittenVm } from '../engine.ts';
import { isNoVm, VmmApi } from './api.ts';
import { apiSocketOf, type CloudHypervisorFiles, VMM_NAME, vmmFiles } from './files.ts';
import { saveVm } from './save.ts';
import { diskId } from './vm-config.ts';

/** A VMM that still writes a save for an earlier daemon answers only after it. */
const ANSWER_TIMEOUT_MS = 600_000;
const RESUME_TIMEOUT_MS = 60_000;
const RESIZE_TIMEOUT_MS = 30_000;
/** A VMM whose guest powered off exits by itself within this time, or never. */
const OWN_END_MS = 500;

/** `claimProgram` is the path of native/claim.c. */
export function cloudHypervisor(claimProgram: string): VmmKind {
  return {
    name: VMM_NAME,
    filesOf: vmmFiles,
    controlSocketOf: apiSocketOf,
    control: (vm, options) => new CloudHypervisorControl(vm, options, claimProgram),
    // At its first answer there is no VM yet. vCPU threads are started later and inherit the policy of the existing
    // threads.
    unbatched: 'all-threads',
    answerTimeoutMs: ANSWER_TIMEOUT_MS,
  };
}

class CloudHypervisorControl implements Control {
  /** Always undefined: this VMM reports a failed write to the guest as a disk error and does not pause it. */
  readonly ioPauseReason = undefined;
  readonly #vm: Controlled;
  readonly #options: ControlOptions;
  readonly #claimProgram: string;
  readonly #files: CloudHypervisorFiles;
  readonly #api: VmmApi;
  readonly #events: EventTail;
  #ending: Disposable | undefined;

  constructor(vm: Controlled, options: ControlOptions, claimProgram: string) {
    this.#claimProgram = claimProgram;
    this.#vm = vm;
    this.#options = options;
    this.#files = vmmFiles(vm.identity.paths);
    this.#api = new VmmApi(this.#files.controlSocketPath);
    this.#events = new EventTail(this.#files.eventsPath);
  }

  /** Each call is a connection of its own; none is kept. */
  async connect(signal: AbortSignal): Promise<boolean> {
    // It is asked many times in a start, and a failure costs an error with its stack.
    if (!existsSync(this.#files.controlSocketPath)) return false;
    const ping = await this.#api.ping({ timeoutMs: ANSWER_TIMEOUT_MS, signal }).catch(() => undefined);
    if (ping === undefined) return false;
    const { pid } = this.#vm.identity;
    if (ping.pid !== pid)
      throw new Error(`process ${ping.pid} answers on the control socket of process ${pid}`);
    return true;
  }

  watch(): Promise<void> {
    if (!this.#vm.isOver) this.#events.watch(() => void this.#checkEvents());
    return this.#checkEvents();
  }

  async readState(): Promise<GuestState> {
    try {
      const call = { timeoutMs: ANSWER_TIMEOUT_MS, signal: this.#vm.ended };
      const { state } = await this.#api.info(call);
      if (state === 'Shutdown' || state === 'Created')
        return { kind: 'over', reason: 'the guest powered off' };
      return { kind: state === 'Paused' ? 'paused' : 'runs' };
    } catch (error) {
      if (isNoVm(error)) return { kind: 'over', reason: 'the VMM has no VM any more' };
      throw error;
    }
  }

  async resume(): Promise<void> {
    const call = { timeoutMs: RESUME_TIMEOUT_MS, signal: this.#vm.ended };
    await this.#api.put('vm.resume', undefined, call);
  }

  async save(options: SaveOptions): Promise<WrittenVm> {
    const { log } = this.#options;
    const terminate = (reason: string) => this.#vm.terminate(reason);
    const { identity } = this.#vm;
    return saveVm({ api: this.#api, identity, log, claimProgram: this.#claimProgram, terminate }, options);
  }

  async resizeDisk(index: number, sizeBytes: number): Promise<void> {
    const body = { id: diskId(index), desired_size: sizeBytes };
    await this.#api.put('vm.resize-disk', body, { timeoutMs: RESIZE_TIMEOUT_MS });
  }

  async openChannel(signal?: AbortSignal): Promise<{ link: SocketLink; needsResync: boolean }> {
    await this.#checkEvents();
    const { ended } = this.#vm;
    const either = signal === undefined ? ended : AbortSignal.any([signal, ended]);
    const link = await connectGuest(this.#files.vsockPath, AGENT_VSOCK_PORT, either);
    // A new vsock connection, so it contains no bytes of an earlier one.
    return { link, needsResync: false };
  }

  ping(timeoutMs: number): Promise<unknown> {
    return this.#api.ping({ timeoutMs });
  }

  async isEnding(): Promise<boolean> {
    return hasShutDown(await this.#events.read());
  }

  async explainExit(exitCode: number | null): Promise<string | undefined> {
    const events = await this.#events.read();
    if (hasReset(events)) return 'the guest reset itself';
    return exitCode === 0 || hasPowerOff(events) ? 'the guest powered off' : undefined;
  }

  close(): void {
    this.#ending?.[Symbol.dispose]();
    this.#events[Symbol.dispose]();
  }

  /** If the guest reset itself, the VMM may have rebooted it: the guest that answers now is not the same. */
  async #checkEvents(): Promise<void> {
    const events = await this.#events.read();
    if (this.#vm.isOver) return;
    if (hasReset(events)) await this.#vm.terminate('the guest reset itself');
    else if (hasPanicked(events)) await this.#vm.terminate('the guest panicked');
    else if (hasShutDown(events)) this.#ending ??= this.#expectEnd('the guest powered off');
  }

  #expectEnd(reason: string): Disposable {
    const limit = loadScaledTimeout({ timeoutMs: OWN_END_MS, reason: () => new Error(reason) });
    limit.signal.addEventListener('abort', () => void this.#vm.terminate(reason));
    return limit;
  }
}

/** Before the guest's driver is up, a request is never answered, so the first attempts are short. */
const FIRST_TRY_MS = 100;
const LONGEST_TRY_MS = 1500;
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 200;
/** `OK <port>` and a line end. */
const MAX_LINE_BYTES = 32;

/** Connects to a port of the guest, and retries until a process listens there. Rejects with the signal's reason. */
export async function connectGuest(
  socketPath: string,
  port: number,
  signal: AbortSignal,
): Promise<SocketLink> {
  let tryMs = FIRST_TRY_MS;
  let pauseMs = FIRST_PAUSE_MS;
  for (;;) {
    try {
      return await tryConnect(socketPath, port, tryMs, signal);
    } catch {
      // The guest does not listen yet, or the signal fired, which the next line checks.
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    tryMs = Math.min(LONGEST_TRY_MS, tryMs * 1.5);
    pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
  }
}

/** One attempt. Rejects if the guest does not listen (the connection then closes without an answer) or on timeout. */
export async function tryConnect(
  socketPath: string,
  port: number,
  timeoutMs: number,
  outer?: AbortSignal,
): Promise<SocketLink> {
  using limit = deadline(timeoutMs, () => new Error(`no answer within ${timeoutMs} ms`), outer);
  const link = await connectLink(socketPath, limit.signal);
  try {
    await shakeHands(link, port, limit.signal);
    return link;
  } catch (error) {
    link.destroy();
    throw error;
  }
}

async function shakeHands(link: SocketLink, port: number, signal: AbortSignal): Promise<void> {
  link.write([Buffer.from(`CONNECT ${port}\n`)]);
  const line = await link.takeLine(MAX_LINE_BYTES, signal);
  if (line === undefined && link.isOver) throw new Error(`no program listens on port ${port} of the guest`);
  if (line === undefined || !/^OK \d+$/.test(line))
    throw new Error('the VMM did not answer a connection request with OK');
}

// The VMM's event file. A hint only: the last events of a VMM that exits may be missing.

type VmmEvent = { readonly source: string; readonly event: string };

const READ_BYTES = 64 * 1024;
/** Maximum bytes read per update; if the VMM writes faster, older events are skipped. */
const MAX_BEHIND_BYTES = 256 * 1024;
/** Minimum time between two updates: rate-limits reading from a VMM that writes without end. */
const MIN_INTERVAL_MS = 100;
/** Poll interval, for file systems without change notifications. */
const POLL_MS = 500;

/** Parses consecutive JSON objects, each printed over several lines; a truncated last one is left out. */
export function parseEvents(text: string): VmmEvent[] {
  return text.split(/\n\s*\n/).flatMap((part) => parseEvent(part) ?? []);
}

function parseEvent(text: string): VmmEvent | undefined {
  try {
    const { source, event } = JSON.parse(text) as Record<string, unknown>;
    return { source: String(source), event: String(event) };
  } catch {
    return undefined;
  }
}

/** The last events of a VMM that has exited; empty if there are none. */
export async function readEvents(path: string): Promise<VmmEvent[]> {
  return parseEvents(await tailFile(path, Number.POSITIVE_INFINITY, READ_BYTES));
}

/** Whether the guest reset itself. The VMM then tries to boot it again. */
export function hasReset(events: readonly VmmEvent[]): boolean {
  return has(events, 'vm', 'rebooting');
}

export function hasPowerOff(events: readonly VmmEvent[]): boolean {
  return has(events, 'vmm', 'shutdown');
}

/** Whether the VM was shut down. This event comes before its connections break; the VMM exits later. */
export function hasShutDown(events: readonly VmmEvent[]): boolean {
  return has(events, 'vm', 'shutdown') || has(events, 'vm', 'deleted');
}

/** Whether the guest's kernel reported a panic. */
export function hasPanicked(events: readonly VmmEvent[]): boolean {
  return has(events, 'guest', 'panic');
}

function has(events: readonly VmmEvent[], source: string, event: string): boolean {
  return events.some((each) => each.source === source && each.event === event);
}

/** A guest can cause any number of device events: only these are retained. */
const END_EVENTS = [hasReset, hasPowerOff, hasShutDown, hasPanicked];

/** Follows the event file of a running VMM. Events that a failed restore attempt left are ignored. */
export class EventTail implements Disposable {
  readonly #path: string;
  #offset = 0;
  #partial = '';
  #endEvents: VmmEvent[] = [];
  #reading: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;
  #watching: Disposable | undefined;
  /** While this timer runs, changes are not reported. */
  #pause: NodeJS.Timeout | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Events so far that end a VM. */
  async read(): Promise<readonly VmmEvent[]> {
    // Concurrent callers share the next read.
    this.#next ??= this.#reading.then(() => {
      this.#next = undefined;
      this.#reading = this.#readNew().catch(() => undefined);
      return this.#reading;
    });
    await this.#next;
    return this.#endEvents;
  }

  /** Calls `onChange` when there may be new events, immediately or 100 ms after the last call, until disposed. */
  watch(onEachChange: () => void): void {
    this[Symbol.dispose]();
    let hasMore = false;
    const onChange = (): void => {
      hasMore = this.#pause !== undefined;
      if (hasMore) return;
      this.#pause = setTimeout(() => {
        this.#pause = undefined;
        if (hasMore) onChange();
      }, MIN_INTERVAL_MS).unref();
      onEachChange();
    };
    const timer = (): void => {
      const polling = setInterval(onChange, POLL_MS).unref();
      this.#watching = { [Symbol.dispose]: () => clearInterval(polling) };
    };
    try {
      const watcher = watch(this.#path, { persistent: false }, onChange);
      watcher.on('error', timer);
      this.#watching = { [Symbol.dispose]: () => watcher.close() };
    } catch {
      timer();
    }
  }

  [Symbol.dispose](): void {
    this.#watching?.[Symbol.dispose]();
    this.#watching = undefined;
    clearTimeout(this.#pause);
    this.#pause = undefined;
  }

  async #readNew(): Promise<void> {
    await using file = await openRegular(this.#path);
    const { size } = await file.stat();
    if (size - this.#offset > MAX_BEHIND_BYTES) {
      this.#offset = size - MAX_BEHIND_BYTES;
      this.#partial = '';
    }
    const buffer = Buffer.alloc(READ_BYTES);
    while (this.#offset < size) {
      const { bytesRead } = await file.read(buffer, 0, READ_BYTES, this.#offset);
      if (bytesRead === 0) return;
      this.#offset += bytesRead;
      const parts = `${this.#partial}${buffer.toString('latin1', 0, bytesRead)}`.split(/\n\s*\n/);
      this.#partial = parts.pop()?.slice(-READ_BYTES) ?? '';
      for (const part of parts) this.#retain(parseEvent(part));
    }
  }

  #retain(event: VmmEvent | undefined): void {
    if (event === undefined) return;
    if (event.source === 'vm' && event.event === 'restoring') this.#endEvents = [];
    if (this.#endEvents.length < END_EVENTS.length && END_EVENTS.some((isEnd) => isEnd([event])))
      this.#endEvents.push(event);
  }
}
