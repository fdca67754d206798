// How far the output of each detached command is in a log, for the daemon that continues it. The file is replaced
// before the records are written that it counts, with the log offset behind each of them: those up to the end of the
// log are in it, also after a crash.
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

const MARKS_NAME = 'commands';

const stream = z.object({
  /** Number of the first record that is not logged. */
  nextSeq: z.number(),
  /** Bytes of it that count as the beginning of the output. */
  headBytes: z.number(),
  /** Beginning of a character, in base64, that the next record completes. */
  held: z.string(),
});
const mark = z.object({ id: z.string(), stdout: stream, stderr: stream, hasEnded: z.boolean() });
const placed = z.object({ end: z.number(), mark });

export type StreamMark = z.output<typeof stream>;
export type CommandMark = z.output<typeof mark>;
type Placed = z.output<typeof placed>;

export class CommandMarks {
  readonly #path: string;
  #placed: Placed[] = [];
  #hasChanged = false;

  /** `end`: of the log. */
  static async open(dir: string, end: number): Promise<CommandMarks> {
    const marks = new CommandMarks(join(dir, MARKS_NAME));
    try {
      const read = z.array(placed).parse(JSON.parse(await readFile(marks.#path, 'utf8')));
      marks.#placed = latest(read.filter((each) => each.end <= end));
    } catch {
      // There is none, or it is damaged: then the log continues with the present.
    }
    return marks;
  }

  private constructor(path: string) {
    this.#path = path;
  }

  get all(): readonly CommandMark[] {
    return latest(this.#placed).map((each) => each.mark);
  }

  /** `end`: log offset behind the records that it counts. */
  add(value: CommandMark, end: number): void {
    this.#placed.push({ mark: value, end });
    this.#hasChanged = true;
  }

  /** To be called before the next records are written. `writtenEnd`: end of the log. */
  async save(writtenEnd: number): Promise<void> {
    if (!this.#hasChanged) return;
    this.#hasChanged = false;
    const isWritten = ({ end }: Placed): boolean => end <= writtenEnd;
    const written = latest(this.#placed.filter(isWritten)).filter(({ mark: { hasEnded } }) => !hasEnded);
    this.#placed = [...written, ...this.#placed.filter((each) => !isWritten(each))];
    await writeFile(`${this.#path}.new`, JSON.stringify(this.#placed), { mode: 0o600 });
    await rename(`${this.#path}.new`, this.#path);
  }
}

function latest(marks: readonly Placed[]): Placed[] {
  return [...new Map(marks.map((each) => [each.mark.id, each])).values()];
}
