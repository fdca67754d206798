// Client of the program that changes network namespaces (native/netd.c), over its standard input and output. Its only
// state between requests is the list of watched namespaces, so the next request restarts a helper that exited.
import type { ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { AppError } from '../lib/errors.ts';
import { startProgram } from '../lib/programs.ts';

type Child = ChildProcessByStdio<Writable, Readable, null>;
type Waiting = { readonly resolve: (text: string) => void; readonly reject: (error: Error) => void };
type Head = { readonly id: string; readonly isOk: boolean; readonly sizeBytes: number };

const MAX_LINE_BYTES = 4096;
/** As in native/netd.c, which ends at a longer one. */
const MAX_BODY_BYTES = 2 ** 20;

/** What it says without being asked, of a guest by its address; as in native/netd.c. */
export type HelperReports = {
  /** The first bytes of a packet that a rule logged. */
  readonly onLogged: (guestIp: string, packet: Buffer) => void;
  /** A connection that the guest opened is over. */
  readonly onEnded: (guestIp: string, text: string) => void;
  /** So many of them were not reported. */
  readonly onMissed: (guestIp: string, count: number) => void;
  /** After it ended, a namespace cannot be watched again. */
  readonly onUnwatched: (guestIp: string, error: Error) => void;
};

export class NetHelper {
  readonly #program: string;
  readonly #reports: HelperReports | undefined;
  #child: Child | undefined;
  readonly #waiting = new Map<string, Waiting>();
  /** Guest addresses by watched namespace. */
  readonly #watched = new Map<string, string>();
  #nextId = 1;
  #isClosed = false;
  #buffered: Buffer = Buffer.alloc(0);
  #head: Head | undefined;

  /** Without `reports` it watches nothing. */
  constructor(program: string, reports?: HelperReports) {
    this.#program = program;
    this.#reports = reports;
  }

  /** Sends a request and returns its output. AppError internal with the helper's error message. */
  request(args: readonly string[], body = ''): Promise<string> {
    if (this.#isClosed) return Promise.reject(new AppError('cancelled', 'the daemon is stopping'));
    if (Buffer.byteLength(body) > MAX_BODY_BYTES)
      return Promise.reject(new AppError('internal', 'a request to the program for networks is too long'));
    const child = this.#start();
    const id = String(this.#nextId++);
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      child.stdin.write(`${[id, ...args.map(encode), Buffer.byteLength(body)].join(' ')}\n${body}`);
    });
  }

  /** Has the reports about the guest of a namespace, from now on. */
  async watch(namespace: string, guestIp: string): Promise<void> {
    this.#watched.set(namespace, guestIp);
    await this.request(['watch', namespace, guestIp]);
  }

  /** It is not watched again after the process ended. */
  forget(namespace: string): void {
    this.#watched.delete(namespace);
  }

  async unwatch(namespace: string): Promise<void> {
    this.forget(namespace);
    await this.request(['unwatch', namespace]);
  }

  /** Stops the process. The namespaces, links and rules that it created stay. */
  close(): void {
    this.#isClosed = true;
    this.#child?.removeAllListeners('exit');
    this.#child?.stdin.end();
    this.#abandon(new AppError('cancelled', 'the daemon is stopping'));
  }

  #start(): Child {
    if (this.#child !== undefined) return this.#child;
    const child = startProgram(this.#program, [], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child = child;
    const onEnd = (what: string) => {
      if (this.#child !== child) return;
      this.#abandon(new AppError('internal', `the program for networks ${what}`));
      this.#watchAgain();
    };
    child.on('error', (error) => onEnd(`cannot be started: ${error.message}`));
    child.on('exit', (code, signal) => onEnd(`ended with ${signal ?? code}`));
    child.stdin.on('error', () => undefined);
    child.stdout.on('data', (bytes: Buffer) => this.#receive(bytes));
    child.unref();
    return child;
  }

  #watchAgain(): void {
    for (const [namespace, guestIp] of this.#watched)
      this.watch(namespace, guestIp).catch((error) => this.#reports?.onUnwatched(guestIp, error));
  }

  #abandon(error: Error): void {
    this.#child = undefined;
    this.#head = undefined;
    this.#buffered = Buffer.alloc(0);
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(error);
  }

  #receive(bytes: Buffer): void {
    this.#buffered = Buffer.concat([this.#buffered, bytes]);
    while (this.#takeLine() || this.#takeBody());
  }

  #takeLine(): boolean {
    if (this.#head !== undefined) return false;
    const end = this.#buffered.subarray(0, MAX_LINE_BYTES).indexOf(10);
    if (end < 0) return false;
    const [first = '', second = '', third = ''] = this.#buffered.toString('latin1', 0, end).split(' ');
    this.#buffered = this.#buffered.subarray(end + 1);
    if (first === 'logged') this.#reports?.onLogged(second, Buffer.from(third, 'hex'));
    else if (first === 'ended') this.#reports?.onEnded(second, third);
    else if (first === 'missed') this.#reports?.onMissed(second, Number(third));
    else this.#head = { id: first, isOk: second === 'ok', sizeBytes: Number(third) };
    return true;
  }

  #takeBody(): boolean {
    if (this.#head === undefined || this.#buffered.length < this.#head.sizeBytes) return false;
    const { id, isOk, sizeBytes } = this.#head;
    const text = this.#buffered.toString('utf8', 0, sizeBytes);
    this.#buffered = this.#buffered.subarray(sizeBytes);
    this.#head = undefined;
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (isOk) waiting?.resolve(text);
    else waiting?.reject(new AppError('internal', `cannot ${text.trim()}`));
    return true;
  }
}

/** Percent-encodes white space and `%`, which separate the arguments of a request. */
function encode(arg: string): string {
  return arg.replace(/[\s%]/g, encodeURIComponent);
}
