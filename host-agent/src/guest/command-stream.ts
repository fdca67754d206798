// One client of a detached command: its output from a record on, and its input. Its end changes nothing for the
// command.
import {
  COMMAND_INPUT,
  type CommandAttachInput,
  type CommandStatus,
  FLOW,
  ProtocolViolation,
  type Result,
  type ServiceRecord,
  ServiceRecordDecoder,
  type Stream,
  type TtySize,
} from '@sandboxd/proto';
import type { AppError } from '../lib/errors.ts';
import { badAnswer, count, refusalOf, toCallError, toLossError } from './agent-errors.ts';
import { type AttachRequest, type CommandEnd, toCommandInfo } from './command-info.ts';
import { StdinSender } from './exec.ts';
import type { ServiceChannel } from './service.ts';

const INPUT = {
  none: COMMAND_INPUT.COMMAND_INPUT_NONE,
  write: COMMAND_INPUT.COMMAND_INPUT_WRITE,
  take: COMMAND_INPUT.COMMAND_INPUT_TAKE,
} as const;

/** In order; `end` or `failed` comes exactly once and last. */
export type CommandEvents = {
  /** Flow control: `bytes`, the encoded size of these records, must be `consumed`. */
  records(records: readonly ServiceRecord[], bytes: number): void;
  end(end: CommandEnd): void;
  failed(error: AppError): void;
  /** There is capacity for input again. */
  drain?(): void;
};

export type CommandStreamOptions = {
  readonly channel: Pick<ServiceChannel, 'open'>;
  /** Why the channel may have broken. */
  readonly explainLoss: () => Promise<string | undefined>;
  readonly id: string;
};

export class CommandStream {
  readonly #options: CommandStreamOptions;
  readonly #events: CommandEvents;
  readonly #decoder = new ServiceRecordDecoder();
  readonly #order = new RecordOrder();
  readonly #stream: Stream;
  readonly #stdin: StdinSender | undefined;
  #isOver = false;

  constructor(
    options: CommandStreamOptions,
    request: AttachRequest | { readonly input: 'write'; readonly isClosing: boolean },
    events: CommandEvents,
  ) {
    this.#options = options;
    this.#events = events;
    this.#stream = options.channel.open(
      { commandAttach: { id: options.id, ...toWire(request) } },
      {
        data: (flow, chunk) => this.#onData(flow, chunk),
        result: (result) => this.#onResult(result),
        lost: (loss) =>
          void toLossError(loss, 'a command was attached', options.explainLoss).then((error) =>
            this.#fail(error),
          ),
      },
    );
    if (request.input !== 'none') this.#stdin = new StdinSender(this.#stream, () => this.#events.drain?.());
  }

  consumed(bytes: number): void {
    if (!this.#isOver && bytes > 0) this.#stream.consumed(bytes);
  }

  /** False if the caller should wait for `drain`. Input of a client that only reads is discarded. */
  write(chunk: Uint8Array): boolean {
    return this.#stdin?.write(chunk) ?? true;
  }

  closeStdin(): void {
    this.#stdin?.close();
  }

  signal(name: string): void {
    if (this.#stdin !== undefined) this.#stream.signal(name);
  }

  resize(size: TtySize): void {
    if (this.#stdin !== undefined) this.#stream.resize(size);
  }

  /** Leaves the command; no event follows. */
  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stdin?.clear();
    this.#stream.cancel();
  }

  #onData(flow: number, chunk: Buffer): void {
    if (this.#isOver) return;
    const records = flow === FLOW.out ? this.#decoder.push(Buffer.from(chunk)) : [];
    for (const record of records) this.#order.check(record);
    this.#events.records(records, chunk.length);
  }

  #onResult(result: Result): void {
    if (this.#isOver) return;
    const refusal = refusalOf(result);
    const { nextSeq, status } = result.commandAttach ?? {};
    if (refusal !== undefined) this.#fail(toCallError(refusal, 'command'));
    else if (!status) this.#fail(badAnswer('no status of the command'));
    else {
      try {
        const info = toCommandInfo(status as CommandStatus, this.#options.id);
        this.#over(() => this.#events.end({ nextSeq: count(nextSeq ?? 0), info }));
      } catch (error) {
        this.#fail(error as AppError);
      }
    }
  }

  #fail(error: AppError): void {
    this.#over(() => this.#events.failed(error));
  }

  #over(report: () => void): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stdin?.clear();
    report();
  }
}

function toWire(
  request: AttachRequest | { readonly input: 'write'; readonly isClosing: boolean },
): CommandAttachInput {
  const input = INPUT[request.input];
  if ('isClosing' in request) return { input, noOutput: true, closesInput: request.isClosing };
  return { input, fromSeq: request.fromSeq, follow: request.isFollowing };
}

/** The sequence numbers of a stream grow without a hole: a gap stands for what is missing. ProtocolViolation. */
export class RecordOrder {
  #next: number | undefined;
  #hasOutput = false;

  check(record: ServiceRecord): void {
    const next = this.#next;
    if (record.kind === 'ring') {
      if (next !== undefined) throw new ProtocolViolation('the output of a command that begins twice');
      this.#next = record.seq;
      return;
    }
    const { seq } = record;
    if (next === undefined) throw new ProtocolViolation('the output of a command without its beginning');
    if (record.kind === 'output') {
      if (seq !== next) throw new ProtocolViolation(`record ${seq} of a command where ${next} is due`);
      this.#next = seq + 1;
      this.#hasOutput = true;
    } else {
      // The first gap precedes the first record; its count begins where the host asked.
      const isFirst = !this.#hasOutput && seq === next;
      if (!isFirst && seq - next !== record.records)
        throw new ProtocolViolation(`a gap of ${record.records} records from ${next} to ${seq}`);
      this.#next = seq;
    }
  }
}
