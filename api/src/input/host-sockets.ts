// Which of several ports of the host cannot be listened on beside the others.
import { isIP } from 'node:net';

export type HostSocket = {
  /** An IP address; absent for all of both families. */
  readonly host_ip?: string | undefined;
  readonly host_port: number;
};

const EVERY = { 4: '0.0.0.0', 6: '::' } as const;

/** Positions of those that an earlier one leaves no room for. In one pass: a body has room for thousands. */
export function findRepeats(sockets: readonly HostSocket[]): number[] {
  const taken = new Set<string>();
  return sockets.flatMap((socket, at) => {
    const { needs, takes } = toKeys(socket);
    const isRepeated = needs.some((key) => taken.has(key));
    for (const key of takes) taken.add(key);
    return isRepeated ? [at] : [];
  });
}

/** A key for a port with any address, with any of a family, with every one of it, and with a certain one. */
function toKeys({ host_ip, host_port }: HostSocket): { needs: string[]; takes: string[] } {
  const any = `${host_port}`;
  const both = `${any} both`;
  if (host_ip === undefined) return { needs: [any], takes: [any, both] };
  const family = isIP(host_ip) === 6 ? 6 : 4;
  const url = `http://[${host_ip}]`;
  // An address with a zone makes no URL, and is refused elsewhere.
  const address = family === 6 && URL.canParse(url) ? new URL(url).hostname.slice(1, -1) : host_ip;
  const anyOfFamily = `${any} ${family}`;
  const every = `${anyOfFamily} every`;
  if (address === EVERY[family]) return { needs: [both, anyOfFamily], takes: [any, anyOfFamily, every] };
  const exact = `${anyOfFamily} ${address}`;
  return { needs: [both, every, exact], takes: [any, anyOfFamily, exact] };
}
