// A client of a detached command as an exec session. Its end leaves the command as it is.
import type { AttachRequest } from '../../guest/command-info.ts';
import type { ExecEvents, ExecSession } from '../../guest/exec.ts';
import type { SandboxCommands } from '../../sandboxes/commands.ts';

/** May throw, as the event `exit` of a session that is lost reports other failures. */
export function attachSession(
  commands: Pick<SandboxCommands, 'attach'>,
  id: string,
  request: Omit<AttachRequest, 'isFollowing'>,
  events: ExecEvents,
): ExecSession {
  const startedAtMs = performance.now();
  const credit = new RecordCredit((bytes) => stream.consumed(bytes));
  const stream = commands.attach(
    id,
    { ...request, isFollowing: true },
    {
      records: (records, bytes) => {
        let next: number | undefined;
        credit.received(bytes);
        for (const record of records) {
          if (record.kind === 'output') {
            credit.passedOn(record.data.length);
            events.output(record.stream, record.data);
            next = record.seq + 1;
          } else if (record.kind === 'gap') {
            events.position?.(record.seq, { records: record.records, bytes: record.bytes });
            next = undefined;
          } else next = record.seq;
        }
        if (next !== undefined) events.position?.(next);
        credit.settle();
      },
      end: ({ info }) =>
        events.exit(info.outcome ?? { exitCode: -1, durationMs: 0, error: 'the command has no result' }),
      failed: ({ message, code }) => {
        const durationMs = performance.now() - startedAtMs;
        events.exit({ exitCode: -1, durationMs, error: message, code, isLost: true });
      },
      drain: () => events.drain?.(),
    },
  );
  return {
    consumed: (bytes) => credit.consumed(bytes),
    write: (chunk) => stream.write(chunk),
    closeStdin: () => stream.closeStdin(),
    signal: (name) => stream.signal(name),
    resize: (size) => stream.resize(size),
    cancel: () => stream.cancel(),
  };
}

/** Returns the credit of all received bytes but those of output that the client has not got yet. */
class RecordCredit {
  readonly #give: (bytes: number) => void;
  #dueBytes = 0;
  #heldBytes = 0;

  constructor(give: (bytes: number) => void) {
    this.#give = give;
  }

  received(bytes: number): void {
    this.#dueBytes += bytes;
  }

  passedOn(bytes: number): void {
    this.#heldBytes += bytes;
  }

  consumed(bytes: number): void {
    this.#heldBytes -= bytes;
    this.settle();
  }

  settle(): void {
    const bytes = this.#dueBytes - this.#heldBytes;
    if (bytes <= 0) return;
    this.#dueBytes -= bytes;
    this.#give(bytes);
  }
}
