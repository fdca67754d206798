// The bare channel: bytes over the agent's port, with only a C program on the guest's side.
import type { Socket } from 'node:net';
import { buildGuestProgram } from '../support/guest-program.ts';
import { type BareOptions, startBareGuest } from './bare.ts';
import { PlainClient } from './plain-client.ts';
import { startPlainServer } from './plain-server.ts';

const MIB = 2 ** 20;

/** The same channel with only an HTTP server on the host's side. */
export class RawHttpChannel implements AsyncDisposable {
  readonly #client: PlainClient;
  readonly #resources: AsyncDisposableStack;

  private constructor(client: PlainClient, resources: AsyncDisposableStack) {
    this.#client = client;
    this.#resources = resources;
  }

  static async open(): Promise<RawHttpChannel> {
    await using resources = new AsyncDisposableStack();
    const channel = resources.use(await RawChannel.open());
    const { url } = resources.use(await startPlainServer(channel.release()));
    return new RawHttpChannel(resources.use(new PlainClient(url)), resources.move());
  }

  /** MiB/s to a disk. */
  async sendToDisk(sizeMib: number): Promise<number> {
    return sizeMib / ((await this.#client.request('POST', '/D', Buffer.alloc(sizeMib * MIB))).ms / 1000);
  }

  /** MiB/s from the guest. */
  receive(sizeMib: number): Promise<number> {
    return this.#get('S', sizeMib);
  }

  /** MiB/s from a disk. */
  receiveFromDisk(sizeMib: number): Promise<number> {
    return this.#get('F', sizeMib);
  }

  async #get(letter: string, sizeMib: number): Promise<number> {
    const path = `/${letter}/${sizeMib * MIB}`;
    return sizeMib / ((await this.#client.request('GET', path, Buffer.alloc(0))).ms / 1000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

/** Received bytes; `wake` is called for each chunk. */
type Received = { bytes: number; wake: () => void };

export class RawChannel implements AsyncDisposable {
  readonly #socket: Socket;
  readonly #received: Received;
  readonly #dispose: () => Promise<void>;

  private constructor(socket: Socket, received: Received, dispose: () => Promise<void>) {
    this.#socket = socket;
    this.#received = received;
    this.#dispose = dispose;
  }

  static async open(options: BareOptions = {}): Promise<RawChannel> {
    const program = await buildGuestProgram('raw-channel');
    const guest = await startBareGuest({
      ...options,
      initramfsPath: program.initramfsPath,
      bootArgs: program.bootArgs,
    });
    // Read into one buffer and only counted: on few cores, CPU time spent here would distort the measurement.
    const received: Received = { bytes: 0, wake: () => undefined };
    const count = (bytes: number): boolean => {
      received.bytes += bytes;
      received.wake();
      return true;
    };
    const reader = { buffer: Buffer.allocUnsafeSlow(MIB), callback: count };
    const socket = await guest.openPort(options.isStream ? undefined : reader);
    socket.on('data', (chunk) => count(chunk.length));
    const channel = new RawChannel(socket, received, async () => {
      await guest[Symbol.asyncDispose]();
      await program[Symbol.asyncDispose]();
    });
    await channel.echo(1);
    return channel;
  }

  /** Milliseconds until `sizeBytes` have come back. */
  echo(sizeBytes: number): Promise<number> {
    return this.#run('E', sizeBytes, Buffer.alloc(sizeBytes, 1), sizeBytes);
  }

  /** MiB/s from the guest. */
  async receive(sizeMib: number): Promise<number> {
    return sizeMib / ((await this.#run('S', sizeMib * MIB, undefined, sizeMib * MIB)) / 1000);
  }

  /** MiB/s from a disk. */
  async receiveFromDisk(sizeMib: number): Promise<number> {
    return sizeMib / ((await this.#run('F', sizeMib * MIB, undefined, sizeMib * MIB)) / 1000);
  }

  /** MiB/s from another process in the guest, through a pipe. */
  async receiveThroughPipe(sizeMib: number): Promise<number> {
    return sizeMib / ((await this.#run('O', sizeMib * MIB, undefined, sizeMib * MIB)) / 1000);
  }

  /** MiB/s to the guest. */
  async send(sizeMib: number): Promise<number> {
    return sizeMib / ((await this.#run('R', sizeMib * MIB, Buffer.alloc(MIB), 1)) / 1000);
  }

  /** MiB/s to another process in the guest, through a pipe. */
  async sendThroughPipe(sizeMib: number): Promise<number> {
    return sizeMib / ((await this.#run('P', sizeMib * MIB, Buffer.alloc(MIB), 1)) / 1000);
  }

  /** MiB/s to a disk. */
  async sendToDisk(sizeMib: number): Promise<number> {
    return sizeMib / ((await this.#run('D', sizeMib * MIB, Buffer.alloc(MIB), 1)) / 1000);
  }

  /** Transfers ownership of the connection; the guest stays. */
  release(): Socket {
    this.#socket.removeAllListeners('data').pause();
    return this.#socket;
  }

  async #run(
    letter: string,
    lengthBytes: number,
    payload: Buffer | undefined,
    expectBytes: number,
  ): Promise<number> {
    const command = Buffer.alloc(9);
    command.write(letter, 'latin1');
    command.writeBigUInt64BE(BigInt(lengthBytes), 1);
    this.#received.bytes = 0;
    const startedAt = performance.now();
    this.#socket.write(command);
    for (let sent = 0; payload !== undefined && sent < lengthBytes; sent += payload.length) {
      if (!this.#socket.write(payload)) await new Promise((resolve) => this.#socket.once('drain', resolve));
    }
    while (this.#received.bytes < expectBytes) {
      await new Promise<void>((resolve) => {
        this.#received.wake = resolve;
      });
    }
    return performance.now() - startedAt;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.destroy();
    await this.#dispose();
  }
}
