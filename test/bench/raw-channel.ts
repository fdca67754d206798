// The bare channel: bytes over the agent's port with nothing but a C program at the guest's end.
import type { Socket } from 'node:net';
import { buildGuestProgram } from '../support/guest-program.ts';
import { type BareOptions, startBareGuest } from './bare.ts';
import { PlainClient } from './plain-client.ts';
import { startPlainServer } from './plain-server.ts';

const MIB = 2 ** 20;

/** The same channel with nothing but an HTTP server at the host's end. */
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
  async receive(sizeMib: number): Promise<number> {
    return sizeMib / ((await this.#client.request('GET', `/S/${sizeMib * MIB}`, Buffer.alloc(0))).ms / 1000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

export class RawChannel implements AsyncDisposable {
  readonly #socket: Socket;
  readonly #dispose: () => Promise<void>;
  #receivedBytes = 0;
  #wake: () => void = () => undefined;

  private constructor(socket: Socket, dispose: () => Promise<void>) {
    this.#socket = socket;
    this.#dispose = dispose;
    socket.on('data', (chunk) => {
      this.#receivedBytes += chunk.length;
      this.#wake();
    });
  }

  static async open(options: BareOptions = {}): Promise<RawChannel> {
    const program = await buildGuestProgram('raw-channel');
    const guest = await startBareGuest({
      ...options,
      initramfsPath: program.initramfsPath,
      bootArgs: program.bootArgs,
    });
    const channel = new RawChannel(await guest.openPort(), async () => {
      await guest[Symbol.asyncDispose]();
      await program[Symbol.asyncDispose]();
    });
    await channel.echo(1);
    return channel;
  }

  /** Milliseconds for `sizeBytes` to come back. */
  echo(sizeBytes: number): Promise<number> {
    return this.#run('E', sizeBytes, Buffer.alloc(sizeBytes, 1), sizeBytes);
  }

  /** MiB/s from the guest. */
  async receive(sizeMib: number): Promise<number> {
    return sizeMib / ((await this.#run('S', sizeMib * MIB, undefined, sizeMib * MIB)) / 1000);
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

  /** The connection, which is somebody else's from now on; the guest stays. */
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
    this.#receivedBytes = 0;
    const startedAt = performance.now();
    this.#socket.write(command);
    for (let sent = 0; payload !== undefined && sent < lengthBytes; sent += payload.length) {
      if (!this.#socket.write(payload)) await new Promise((resolve) => this.#socket.once('drain', resolve));
    }
    while (this.#receivedBytes < expectBytes) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return performance.now() - startedAt;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.destroy();
    await this.#dispose();
  }
}
