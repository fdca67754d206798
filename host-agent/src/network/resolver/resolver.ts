// The resolver of one sandbox, by UDP and TCP, at an address that only it reaches. Who asks is known by the source address, too, which
// rules at the sandbox's own network and at the host hold to the truth.
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { Logger } from 'pino';
import type { ResolverClient } from './client.ts';
import { encodeAnswer, encodeUdpAnswer, parseQuery } from './message.ts';

const MAX_CONNECTIONS = 8;
/** Of a connection by TCP. */
const IDLE_MS = 10_000;
/** The same for one message: none of ours is longer. */
const MAX_TCP_BYTES = 1232;
const LENGTH_BYTES = 2;
/** Questions that wait in the kernel while this process is busy; it gives less where less is all that anybody gets. */
const UDP_BUFFER_BYTES = 2 ** 20;
/** Questions of one connection that wait for their answers; reading stops there. */
const MAX_PIPELINED = 32;

export type ResolverAddress = { readonly host: string; readonly port: number };

/** Who is answered. */
export type Asker = { readonly address: string; readonly client: ResolverClient };

export class Resolver {
  readonly #asker: Asker;
  readonly #udp: UdpSocket;
  readonly #tcp: Server;
  readonly #sockets = new Set<Socket>();
  #isClosed = false;

  private constructor(udp: UdpSocket, tcp: Server, asker: Asker, log: Logger) {
    this.#asker = asker;
    this.#udp = udp;
    this.#tcp = tcp;
    udp.on('message', (bytes, { address, port }) => void this.#hear(bytes, address, port));
    udp.on('error', (err) => log.error({ err }, 'the resolver of sandboxes has trouble'));
    tcp.on('connection', (socket) => this.#welcome(socket));
    tcp.on('error', (err) => log.error({ err }, 'the resolver of sandboxes has trouble'));
  }

  /** Rejects where the address cannot be had. */
  static async open({ host, port }: ResolverAddress, asker: Asker, log: Logger): Promise<Resolver> {
    const udp = createSocket({ type: 'udp4', recvBufferSize: UDP_BUFFER_BYTES });
    // Who has no further question is answered all the same.
    const tcp = createServer({ allowHalfOpen: true });
    try {
      udp.bind(port, host);
      await once(udp, 'listening');
      tcp.listen(udp.address().port, host);
      await once(tcp, 'listening');
    } catch (error) {
      udp.close();
      tcp.close();
      throw error;
    }
    return new Resolver(udp, tcp, asker, log);
  }

  get port(): number {
    return this.#udp.address().port;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#udp.close();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#tcp.close(resolve));
  }

  #clientAt(address: string | undefined): ResolverClient | undefined {
    return address === this.#asker.address ? this.#asker.client : undefined;
  }

  async #hear(bytes: Buffer, address: string, port: number): Promise<void> {
    const client = this.#clientAt(address);
    const parsed = client?.hears() === true ? parseQuery(bytes) : undefined;
    if (client === undefined || parsed === undefined) return;
    if (parsed.kind === 'refusal') return this.#say(parsed.bytes, address, port);
    const { question } = parsed;
    const answer = await client.answer(question);
    if (answer !== undefined) this.#say(encodeUdpAnswer(question, answer), address, port);
  }

  #say(bytes: Buffer, address: string, port: number): void {
    // It may be closed by now. Whoever does not get it asks again.
    if (!this.#isClosed) this.#udp.send(bytes, port, address, () => undefined);
  }

  #welcome(socket: Socket): void {
    const client = this.#clientAt(socket.remoteAddress);
    if (client === undefined || client.connections >= MAX_CONNECTIONS) {
      socket.destroy();
      return;
    }
    client.connections++;
    this.#sockets.add(socket);
    socket.setTimeout(IDLE_MS, () => socket.destroy());
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      client.connections--;
      this.#sockets.delete(socket);
    });
    void converse(socket, client)
      .catch(() => undefined)
      .finally(() => socket.destroySoon());
  }
}

/** Answers one question after the other, as many at once as a pipeline may have. */
async function converse(socket: Socket, client: ResolverClient): Promise<void> {
  let held = Buffer.alloc(0);
  const answering = new Set<Promise<void>>();
  for await (const chunk of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    held = Buffer.concat([held, chunk]);
    while (held.length >= LENGTH_BYTES) {
      const length = held.readUInt16BE(0);
      if (length > MAX_TCP_BYTES) return;
      if (held.length < LENGTH_BYTES + length) break;
      if (!client.hears()) return;
      const message = Buffer.from(held.subarray(LENGTH_BYTES, LENGTH_BYTES + length));
      held = held.subarray(LENGTH_BYTES + length);
      const answer = reply(socket, client, message).finally(() => answering.delete(answer));
      answering.add(answer);
      if (answering.size >= MAX_PIPELINED) await Promise.race(answering);
    }
  }
  await Promise.all(answering);
}

async function reply(socket: Socket, client: ResolverClient, message: Buffer): Promise<void> {
  const parsed = parseQuery(message);
  if (parsed === undefined) return;
  const question = parsed.kind === 'question' ? parsed.question : undefined;
  const answer = question && (await client.answer(question));
  if (question !== undefined && answer === undefined) return;
  const bytes =
    parsed.kind === 'refusal' ? parsed.bytes : question && answer && encodeAnswer(question, answer);
  if (bytes === undefined || !socket.writable) return;
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt16BE(bytes.length);
  const isTaken = socket.write(Buffer.concat([length, bytes]));
  if (!isTaken) await once(socket, 'drain');
}
