// A name server whose answers a test defines.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type Answer, decode, encode, TRUNCATED_RESPONSE } from 'dns-packet';

type Zone = Record<string, readonly Answer[] | 'servfail' | 'silent'>;

export class NameServer implements AsyncDisposable {
  /** By name in lower case; other names are NXDOMAIN. */
  readonly zone: Zone = {};
  /** Queried names, with their types. */
  readonly asked: string[] = [];
  /** Delay of each answer. */
  delayMs = 0;
  readonly #socket = createSocket('udp4');
  #isOpen = true;

  static async open(host = '127.0.0.1', port = 0): Promise<NameServer> {
    const server = new NameServer();
    server.#socket.bind(port, host);
    await once(server.#socket, 'listening');
    server.#socket.on('message', (bytes, { address, port: from }) => {
      const answer = server.#answer(bytes);
      if (answer === undefined) return;
      const say = (): void => server.#socket.send(answer, from, address, () => undefined);
      if (server.delayMs === 0) say();
      else setTimeout(() => server.#isOpen && say(), server.delayMs);
    });
    return server;
  }

  get address(): string {
    const { address, port } = this.#socket.address();
    return `${address}:${port}`;
  }

  /** Sets the A records of a name. */
  set(name: string, addresses: readonly string[], ttl = 60): void {
    this.zone[name] = addresses.map((data) => ({ type: 'A', name, ttl, data }));
  }

  #answer(bytes: Buffer): Buffer | undefined {
    const { id, questions } = decode(bytes);
    const [question] = questions ?? [];
    if (question === undefined) return undefined;
    const name = question.name.toLowerCase();
    this.asked.push(`${name} ${question.type}`);
    const found = this.zone[name];
    if (found === 'silent') return undefined;
    const rcode = found === undefined ? 3 : found === 'servfail' ? 2 : 0;
    const answers = Array.isArray(found) ? (found as Answer[]) : [];
    const answer = encode({
      type: 'response',
      id: id ?? 0,
      flags: 0x0180 | rcode,
      questions: [question],
      answers,
    });
    if (answer.length <= 1200) return answer;
    return encode({
      type: 'response',
      id: id ?? 0,
      flags: 0x0180 | TRUNCATED_RESPONSE,
      questions: [question],
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOpen = false;
    this.#socket.close();
    await once(this.#socket, 'close');
  }
}
