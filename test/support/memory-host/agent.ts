// A guest agent in memory: it speaks the agent protocol, records its requests, and shows the faults of a test.
import {
  type Exec,
  FREEZE,
  GuestConnection,
  type Identity,
  type IdentityInput,
  NETWORK,
  PORTS,
  type Request,
  type ServiceConfigure,
  type ServiceSpec,
  SLEEP,
  type Stream,
  TRUST,
  type TrustInput,
} from '@sandboxd/proto';
import type { LoopLink } from './link.ts';

/** The guest state in a snapshot, which a copy continues with. */
export type AgentState = {
  /** Files by path, as pushes would leave them; tests use them as the guest's memory. */
  readonly notes: Readonly<Record<string, string>>;
  readonly service: { readonly cmd: readonly string[] } | null;
  readonly identities: number;
  /** Whether the guest had read the start of a frame whose rest will never arrive. */
  readonly isMidFrame: boolean;
};

const NEW_STATE: AgentState = { notes: {}, service: null, identities: 0, isMidFrame: false };
/** A frame's length, and its first bytes. */
const HALF_FRAME = Buffer.of(0xe0, 0xd4, 0x03, 8, 1);

export type AgentFaults = {
  /** From the connection with this number on, it receives nothing. */
  deafFrom?: number;
  /** Never answers such a request. */
  ignores?: 'exec' | 'identity' | 'wake';
  /** Answers these requests with an error. */
  refuses?: 'identity' | 'growDisk' | 'serviceConfigure' | 'setClock' | 'trust';
  /** It can freeze its commands; not a fault, but a guest that is deaf does not answer that. */
  freezes?: boolean;
  /** Finds no root on its disks. */
  hasNoRoot?: boolean;
  /** It is older than inspected TLS. */
  trustsNothing?: boolean;
  /** It cannot add an authority there. */
  untrusting?: string[];
  /** Each of its commands leaves a process behind. */
  leavesProcesses?: boolean;
  /** Nothing listens on its ports, and its service ended so often. */
  endedServices?: number;
  /** Its service has ended with that code. */
  exitedWith?: number;
  /** Its commands run until they are cancelled. */
  neverExits?: boolean;
  /** It has no single file; otherwise it does not know them. */
  hasNoFiles?: boolean;
};

export class MemoryAgent {
  readonly identities: Identity[] = [];
  /** The time of the guest at each call that reads or shifts its clock. */
  readonly clocks: number[] = [];
  /** The service specs that it received. */
  readonly services: ServiceSpec[] = [];
  readonly execs: { readonly stream: Stream; readonly exec: Exec }[] = [];
  /** Of each call that had one; an empty text: nothing is inspected any more. */
  readonly trusts: string[] = [];
  grownDisks = 0;
  wakes = 0;
  hellos = 0;
  /** Requests that it never answers. */
  ignored = 0;
  state: AgentState;
  readonly #faults: AgentFaults;
  readonly #links = new Set<LoopLink>();
  #attached = 0;
  readonly #connection: GuestConnection;

  constructor(state: AgentState = NEW_STATE, faults: AgentFaults = {}) {
    this.state = state;
    this.#faults = faults;
    this.#connection = new GuestConnection({
      describe: () => ({
        agentVersion: 'memory',
        bootId: 'memory',
        capabilities: [
          ...[NETWORK, PORTS, SLEEP, ...(this.#faults.freezes ? [FREEZE] : [])],
          ...(this.#faults.trustsNothing ? [] : [TRUST]),
        ],
      }),
      onHello: () => {
        this.hellos++;
      },
      onRequest: (stream, request) => this.#serve(stream, request),
    });
  }

  /** `isMidFrame`: the host's bytes follow half a frame of an earlier host. */
  attach(link: LoopLink, isMidFrame: boolean): void {
    this.#links.add(link);
    this.#connection.attach(link, () => this.#links.delete(link));
    if (isMidFrame) link.receive(HALF_FRAME);
    this.#attached += 1;
    link.isDeaf = this.#attached >= (this.#faults.deafFrom ?? Number.POSITIVE_INFINITY);
  }

  /** The state for a snapshot. */
  get saved(): AgentState {
    return { ...this.state, isMidFrame: [...this.#links].some((link) => link.isDeaf) };
  }

  /** While it hangs, it receives nothing. */
  set isHanging(isHanging: boolean) {
    for (const link of this.#links) link.isDeaf = isHanging;
  }

  /** Number of open connections. */
  get connections(): number {
    return this.#links.size;
  }

  /** The VM exits or loses its channel. */
  cut(cause?: Error): void {
    for (const link of [...this.#links]) link.destroy(cause);
  }

  #serve(stream: Stream, request: Request): void {
    const { refuses: refused, ignores: ignored } = this.#faults;
    if (ignored !== undefined && request[ignored]) {
      this.ignored += 1;
      return;
    }
    if (refused !== undefined && request[refused]) {
      stream.finish({ error: { code: 'internal', message: `${refused} was refused` } });
    } else if (this.#faults.hasNoRoot && request.identity?.entersRoot) {
      stream.finish({ error: { code: 'not_found', message: 'cannot enter the root: EINVAL' } });
    } else if (request.exec) this.#exec(stream, request.exec as Exec);
    else if (request.identity) {
      const identity = request.identity as IdentityInput & Identity;
      this.identities.push({ ...identity, entropy: Uint8Array.from(identity.entropy) });
      this.state = { ...this.state, identities: this.state.identities + 1 };
      stream.finish({ identity: { trust: this.#trust(request.identity.trust) } });
    } else if (request.wake) {
      this.wakes++;
      stream.finish({ wake: { trust: this.#trust(request.wake.trust) } });
    } else if (request.trust) stream.finish({ trust: this.#trust(request.trust) });
    else if (request.freeze) stream.finish({ freeze: {} });
    else if (request.setClock) {
      const unixTimeUs = Date.now() * 1000 + Number(request.setClock.shiftUs);
      this.clocks.push(unixTimeUs);
      stream.finish({ setClock: { unixTimeUs } });
    } else if (request.stats) {
      stream.finish({ stats: { execCgroups: this.#faults.leavesProcesses ? this.execs.length : 0 } });
    } else if (request.growDisk) {
      this.grownDisks++;
      stream.finish({ growDisk: { sizeBytes: 0 } });
    } else if (request.serviceConfigure) {
      const { spec } = request.serviceConfigure as ServiceConfigure;
      this.services.push(spec as ServiceSpec);
      this.state = { ...this.state, service: { cmd: spec?.cmd ?? [] } };
      stream.finish({ serviceStatus: { state: 'running', pid: 10, spec: spec ?? {}, ring: { id: 'r' } } });
    } else if (request.serviceControl) {
      const { service } = this.state;
      const { endedServices: restarts = 0 } = this.#faults;
      const ended = restarts > 0 && { restarts, lastExit: { exitCode: 137, oomKilled: true } };
      const { exitedWith: exitCode } = this.#faults;
      const status =
        service === null
          ? { state: 'idle' }
          : exitCode !== undefined
            ? { state: exitCode === 0 ? 'stopped' : 'failed', lastExit: { exitCode } }
            : { state: 'running', spec: { cmd: [...service.cmd] }, ...ended };
      stream.finish({ serviceStatus: status });
    } else if (request.portConnect) {
      if (this.#faults.endedServices !== undefined)
        stream.finish({ error: { code: 'not_found', message: 'nothing listens' } });
      else stream.started(0);
    } else if (request.serviceOutput) {
      // No output exists; a follower waits.
    } else if (this.#faults.hasNoFiles) {
      stream.finish({ error: { code: 'not_found', message: 'there is no such file' } });
    } else stream.finish({ error: { code: 'unsupported', message: 'this agent is a test' } });
  }

  #trust(trust: TrustInput | null | undefined) {
    if (trust) this.trusts.push(trust.certificate ?? '');
    return { problems: this.#faults.untrusting ?? [] };
  }

  /** `note NAME TEXT` stores a text, `recall NAME` prints it, `wait` runs until cancelled; other commands succeed. */
  #exec(stream: Stream, exec: Exec): void {
    this.execs.push({ stream, exec });
    stream.started(100 + this.execs.length);
    const [verb, name = '', text = ''] = exec.cmd;
    const exit = (exitCode: number): void => stream.finish({ exec: { exitCode, durationUs: 1000 } });
    stream.handlers = { cancel: () => exit(-1) };
    if (verb === 'wait' || this.#faults.neverExits) return;
    if (verb === 'note') this.state = { ...this.state, notes: { ...this.state.notes, [name]: text } };
    const output = verb === 'recall' ? Buffer.from(this.state.notes[name] ?? 'nothing') : undefined;
    if (output === undefined) {
      exit(0);
      return;
    }
    let isSent = false;
    stream.setSource(1, () => {
      if (isSent) {
        stream.end(1);
        exit(0);
        return null;
      }
      isSent = true;
      return output;
    });
    stream.ready(1);
  }
}
