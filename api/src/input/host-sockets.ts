// Finds conflicts among host ports that are to be published.
import { isIP } from 'node:net';

export type HostSocket = {
  /** An IP address. Absent: all addresses of both families. */
  readonly host_ip?: string | undefined;
  readonly host_port: number;
};

const EVERY = { 4: '0.0.0.0', 6: '::' } as const;

/** Indexes of the entries that conflict with an earlier one. One pass, because a body may have thousands of entries. */
export function findRepeats(sockets: readonly HostSocket[]): number[] {
  const taken = new Set<string>();
  return sockets.flatMap((socket, at) => {
    const { needs, takes } = toKeys(socket);
    const isRepeated = needs.some((key) => taken.has(key));
    for (const key of takes) taken.add(key);
    return isRepeated ? [at] : [];
  });
}

/** Keys of a port: with any address, with any address of a family, with all addresses of a family, with one address. */
function toKeys({ host_ip, host_port }: HostSocket): { needs: string[]; takes: string[] } {
  const any = `${host_port}`;
  const both = `${any} both`;
  if (host_ip === undefined) return { needs: [any], takes: [any, both] };
  const family = isIP(host_ip) === 6 ? 6 : 4;
  const url = `http://[${host_ip}]`;
  // An address with a zone is not valid in a URL; another check refuses it.
  const address = family === 6 && URL.canParse(url) ? new URL(url).hostname.slice(1, -1) : host_ip;
  const anyOfFamily = `${any} ${family}`;
  const every = `${anyOfFamily} every`;
  if (address === EVERY[family]) return { needs: [both, anyOfFamily], takes: [any, anyOfFamily, every] };
  const exact = `${anyOfFamily} ${address}`;
  return { needs: [both, every, exact], takes: [any, anyOfFamily, exact] };
}
