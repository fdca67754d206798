// The resolver of one sandbox, over UDP and TCP, at an address that only this sandbox can reach. The source address is
// checked as well; rules in the sandbox's namespace and on the host prevent spoofing.
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { Logger } from 'pino';
import type { ResolverClient } from './client.ts';
import { encodeAnswer, encodeUdpAnswer, parseQuery } from './message.ts';

const MAX_CONNECTIONS = 8;
/** Idle timeout of a TCP connection, also the limit for one message. */
const IDLE_MS = 10_000;
/** Longest query over TCP. */
const MAX_TCP_BYTES = 1232;
const LENGTH_BYTES = 2;
/** Receive buffer for queries that arrive while this process is busy. The kernel lowers it to its own maximum. */
const UDP_BUFFER_BYTES = 2 ** 20;
/** Pipelined queries of one connection that wait for answers; further ones are not read (backpressure). */
const MAX_PIPELINED = 32;

export type ResolverAddress = { readonly host: string; readonly port: number };

/** The only client that gets answers. */
export type AllowedClient = { readonly address: string; readonly client: ResolverClient };

export class Resolver {
  readonly #allowed: AllowedClient;
  readonly #udp: UdpSocket;
  readonly #tcp: Server;
  readonly #sockets = new Set<Socket>();
  #isClosed = false;

  private constructor(udp: UdpSocket, tcp: Server, allowed: AllowedClient, log: Logger) {
    this.#allowed = allowed;
    this.#udp = udp;
    this.#tcp = tcp;
    udp.on('message', (bytes, { address, port }) => void this.#receive(bytes, address, port));
    udp.on('error', (err) => log.error({ err }, 'the DNS resolver of a sandbox has a socket error'));
    tcp.on('connection', (socket) => this.#accept(socket));
    tcp.on('error', (err) => log.error({ err }, 'the DNS resolver of a sandbox has a socket error'));
  }

  /** Rejects if the address is not available. */
  static async open({ host, port }: ResolverAddress, allowed: AllowedClient, log: Logger): Promise<Resolver> {
    const udp = createSocket({ type: 'udp4', recvBufferSize: UDP_BUFFER_BYTES });
    // A client that has half-closed its connection still gets its answers.
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
    return new Resolver(udp, tcp, allowed, log);
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
    return address === this.#allowed.address ? this.#allowed.client : undefined;
  }

  async #receive(bytes: Buffer, address: string, port: number): Promise<void> {
    const client = this.#clientAt(address);
    const parsed = client?.admits() === true ? parseQuery(bytes) : undefined;
    if (client === undefined || parsed === undefined) return;
    if (parsed.kind === 'refusal') return this.#send(parsed.bytes, address, port);
    const { question } = parsed;
    const answer = await client.answer(question);
    if (answer !== undefined) this.#send(encodeUdpAnswer(question, answer), address, port);
  }

  #send(bytes: Buffer, address: string, port: number): void {
    // The socket may be closed by now. A client that gets no answer retries.
    if (!this.#isClosed) this.#udp.send(bytes, port, address, () => undefined);
  }

  #accept(socket: Socket): void {
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
    void serveConnection(socket, client)
      .catch(() => undefined)
      .finally(() => socket.destroySoon());
  }
}

/** Answers the queries of one connection, several at a time (pipelining). */
async function serveConnection(socket: Socket, client: ResolverClient): Promise<void> {
  let buffered = Buffer.alloc(0);
  const answering = new Set<Promise<void>>();
  for await (const chunk of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    buffered = Buffer.concat([buffered, chunk]);
    while (buffered.length >= LENGTH_BYTES) {
      const length = buffered.readUInt16BE(0);
      if (length > MAX_TCP_BYTES) return;
      if (buffered.length < LENGTH_BYTES + length) break;
      if (!client.admits()) return;
      const message = Buffer.from(buffered.subarray(LENGTH_BYTES, LENGTH_BYTES + length));
      buffered = buffered.subarray(LENGTH_BYTES + length);
      const answer = reply(socket, client, message).finally(() => answering.delete(answer));
      answering.add(answer);
      if (answering.size >= MAX_PIPELINED) await Promise.race(answering);
    }
  }
  await Promise.all(answering);
}

/** Resolves when the answer is written, or its connection is over: that is no failure of the resolver. */
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
  await new Promise<void>((written) => socket.write(Buffer.concat([length, bytes]), () => written()));
}

/**
 * The resolver's port on the host; guests query port 53 of their gateway. It is privileged, so no user's program can
 * take it while the daemon is stopped, and name servers that listen on every address do not use it.
 */
export const RESOLVER_PORT = 1013;
