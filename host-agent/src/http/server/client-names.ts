// Who the clients are that connections belong to: users of this host, by whichever way they came, and addresses
// elsewhere.
import { fstatSync } from 'node:fs';
import type { Socket } from 'node:net';
import { runProgram } from '../../lib/programs.ts';

/** Undefined for one that nobody holds the other end of any more. */
export type ClientName = string | undefined;
export type NameClients = (sockets: readonly Socket[]) => Promise<readonly ClientName[]>;

/** More than all clients that there may be. */
const MAX_ANSWER_BYTES = 64 * 2 ** 20;

/** `program` is the path of native/peers.c. Rejects where the kernel does not tell. */
export function nameClients(program: string): NameClients {
  return async (sockets) => {
    const questions = sockets.map(toQuestion);
    const answers = await ask(program, questions.filter((question) => question !== undefined).join(''));
    let next = 0;
    return sockets.map((socket, at) => {
      const answer = questions[at] === undefined ? 'gone' : answers[next++];
      if (answer === 'gone') return undefined;
      return answer === '-' ? nameByAddress(socket) : `user ${answer}`;
    });
  };
}

/** What is known of a client without the kernel's help. */
export function nameByAddress({ remoteAddress }: Socket): string {
  return remoteAddress === undefined ? 'this host' : toNetwork(toPlain(remoteAddress));
}

async function ask(program: string, questions: string): Promise<string[]> {
  const { stdout } = await runProgram(program, [], { maxBuffer: MAX_ANSWER_BYTES, input: questions });
  return stdout.split('\n');
}

function toQuestion(socket: Socket): string | undefined {
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  if (socket.destroyed) return undefined;
  if (remoteAddress !== undefined && localAddress !== undefined)
    return `tcp ${toPlain(remoteAddress)} ${remotePort} ${toPlain(localAddress)} ${localPort}\n`;
  // One of TCP that was reset has no address either, and no other end.
  const descriptor: unknown = Reflect.get(Reflect.get(socket, '_handle') ?? {}, 'fd');
  return typeof descriptor === 'number' && descriptor >= 0
    ? `unix ${fstatSync(descriptor).ino}\n`
    : undefined;
}

/** An address of IPv4 as a socket for both kinds has it. */
function toPlain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** Of IPv6 whoever has one address has all that share its first 64 bits. */
function toNetwork(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.replace(/%.*$/, '').split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':'));
  const [first, last] = [groups(head), groups(tail ?? '')];
  const zeros = tail === undefined ? [] : Array<string>(8 - first.length - last.length).fill('0');
  return `${[...first, ...zeros, ...last].slice(0, 4).join(':')}::/64`;
}
