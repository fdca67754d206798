// The control protocol of one VMM: requests over its REST interface, and events from a file that is followed.
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { AGENT_VSOCK_PORT } from '@sandboxd/proto';
import { loadScaledTimeout } from '../../lib/load-scaled-timeout.ts';
import { connectLink, type SocketLink } from '../../lib/socket-link.ts';
import { deadline } from '../../lib/wait.ts';
import type { Control, Controlled, ControlOptions, GuestState, VmmKind } from '../control.ts';
import type { SaveOptions, WrittenVm } from '../engine.ts';
import { isNoVm, VmmApi } from './api.ts';
import { EventTail, hasPanicked, hasPowerOff, hasReset, hasShutDown } from './events.ts';
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
