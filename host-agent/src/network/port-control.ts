// The daemon's end of the control connection of a port holder (native/portd.c): what happens to new connections, and
// the report that one is held. A holder that was broken could at most wake its own sandbox.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { AppError, toError } from '../lib/errors.ts';
import { deadline, raceSignal } from '../lib/wait.ts';

/** New connections are forwarded to the guest, held until they are forwarded, or refused. */
export type PortMode = 'open' | 'hold' | 'refuse';

export const MODE_LETTERS = { open: 'o', hold: 'h', refuse: 'r' } as const;
const CLOSE = 'c'.charCodeAt(0);
const END_ALL = 'x';
const TIMEOUT_MS = 10_000;
const MAX_BYTES = 16;

export class PortControl {
  readonly #socket: Socket;
  readonly #onHeld: () => void;
  #answered: (() => void) | undefined;
  /** What a broken holder reports counts once. */
  #canKnock = false;

  private constructor(socket: Socket, onHeld: () => void) {
    this.#socket = socket;
    this.#onHeld = onHeld;
    socket.unref();
    socket.on('error', () => socket.destroy());
    socket.on('data', (bytes: Buffer) => {
      // It answers each change with one byte, and reports one held connection between two.
      if (bytes.length > MAX_BYTES) socket.destroy();
      else for (const letter of bytes.toString('latin1')) this.#receive(letter);
    });
  }

  /** `onHeld`: its guest is needed; once for each `hold`. Rejects if there is no such holder. */
  static async open(path: string, onHeld: () => void): Promise<PortControl> {
    const socket = connect(path);
    await once(socket, 'connect');
    return new PortControl(socket, onHeld);
  }

  /** Resolves when it is so. One call at a time. AppError internal. */
  async set(mode: PortMode): Promise<void> {
    this.#canKnock = mode === 'hold';
    await this.#ask(Buffer.from(MODE_LETTERS[mode]));
  }

  /** Closes the port of that index, and its connections. As `set`. */
  async closePort(index: number): Promise<void> {
    await this.#ask(Buffer.from([CLOSE, index >> 8, index & 255]));
  }

  /** Ends all connections but those that are held. As `set`. */
  async endAll(): Promise<void> {
    await this.#ask(Buffer.from(END_ALL));
  }

  async #ask(command: Buffer): Promise<void> {
    const gone = (why: string) => new AppError('internal', `the holder of published ports ${why}`);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#answered = resolve;
    const onClose = () => reject(gone('has ended'));
    this.#socket.once('close', onClose);
    try {
      using limit = deadline(TIMEOUT_MS, () => gone('does not answer'));
      if (this.#socket.destroyed) throw gone('has ended');
      this.#socket.write(command);
      await raceSignal(promise, limit.signal);
    } catch (error) {
      this.close();
      throw toError(error);
    } finally {
      this.#socket.off('close', onClose);
    }
  }

  /** Also called for data on a connection that was open before. */
  knock(): void {
    if (!this.#canKnock) return;
    this.#canKnock = false;
    this.#onHeld();
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(letter: string): void {
    if (letter === 'k') this.knock();
    else this.#answered?.();
  }
}
