// Network resources of a host that belong to no sandbox of its daemon, and those that a sandbox lacks. They are all in
// the test's namespaces, where no other daemon runs.
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { SandboxJson } from '../api.ts';
import type { Daemon } from '../daemon.ts';
import { settled } from '../settled.ts';

const run = promisify(execFile);

/** Every violation, as a sentence; `ports` are the host's published ports. */
export function findNetworkViolations(daemon: Daemon, ports: readonly number[]): Promise<string[]> {
  return settled(() => lookForViolations(daemon, ports));
}

async function lookForViolations({ api, directories }: Daemon, ports: readonly number[]): Promise<string[]> {
  const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>('GET', '/sandboxes');
  const guests = sandboxes.flatMap(({ network }) => network?.guest_ip ?? []);
  const { stdout: routed } = await run('ip', ['-j', 'route']);
  const routes = (JSON.parse(routed) as { dst: string; dev: string }[]).filter(
    ({ dev }) => dev.startsWith('sbx') && !dev.endsWith('000000'),
  );
  const own = routes.filter(({ dst }) => guests.includes(dst)).map(({ dev }) => dev);
  const net = join(directories.runDir, 'net');
  const pins = await readdir(net).catch(() => []);
  const mounted = [
    ...(await readFile('/proc/self/mountinfo', 'utf8')).matchAll(/ (\S+)\/net\/(sbx\w+) /g),
  ].map(([, , name = '']) => name);
  const links = [...(await readFile('/proc/net/dev', 'utf8')).matchAll(/\b(sbx\w+):/g)].map(
    ([, name = '']) => name,
  );
  const { stdout: rules } = await run('nft', ['list', 'ruleset', 'ip']);
  const led = [...rules.matchAll(/(\d+) : (\d+\.\d+\.\d+\.\d+) \. \d+/g)];
  const { stdout: listening } = await run('ss', ['-Htln']);
  const heard = [...listening.matchAll(/:(\d+) +\S+:\*/g)].map(([, port]) => Number(port));
  const { stdout: tracked } = await run('cat', ['/proc/net/nf_conntrack']);
  const subnet = / saddr (\d+\.\d+)\.0\.0\/16 masquerade/.exec(rules)?.[1];
  if (subnet === undefined && guests.length > 0) return ['no masquerade of sandboxes'];
  const talking = [...tracked.matchAll(/src=(\d+\.\d+\.\d+\.\d+) /g)].map(([, address = '']) => address);
  const resolver = subnet === undefined ? '' : `${subnet}.0.1`;
  const recorded = async (dir: string): Promise<string[]> => {
    const names = await readdir(join(directories.runDir, dir)).catch((): string[] => []);
    // Each with its sockets, and with the record of what reads for it.
    return [...new Set(names.map((name) => name.replace(/(?:\.(?:control|gate|gateway))+$/, '')))];
  };
  const tables = [...rules.matchAll(/table ip (sandboxd_\w+)/g)].map(([, name]) => name);
  return [
    ...compare(
      'route',
      routes.map(({ dst }) => dst),
      guests,
    ),
    ...compare(
      'link',
      links.filter((name) => !name.endsWith('000000')),
      own,
    ),
    ...compare('namespace', pins, own),
    ...compare('mount', mounted, own),
    ...compare('holder', await recorded('ports'), own, true),
    ...compare('egress process', await recorded('egress'), own, true),
    ...compare('port that is led', [...new Set(led.map(([, port]) => port))].map(String), ports.map(String)),
    ...led.flatMap(([, port, ip = '']) =>
      guests.includes(ip) ? [] : [`port ${port} leads to ${ip}, which is nobody's`],
    ),
    ...ports.filter((port) => !heard.includes(port)).map((port) => `nobody holds port ${port}`),
    ...heard
      .filter((port) => port >= 8000 && port < 9000 && !ports.includes(port))
      .map((port) => `port ${port} is held for nobody`),
    ...[...new Set(talking)]
      .filter(
        (ip) =>
          subnet !== undefined && ip.startsWith(`${subnet}.`) && ip !== resolver && !guests.includes(ip),
      )
      .map((ip) => `connections of ${ip}, which is nobody's, are tracked`),
    ...(tables.length > 1 ? [`tables ${tables.join(' ')}`] : []),
  ];
}

function compare(
  what: string,
  found: readonly string[],
  wanted: readonly string[],
  isPart = false,
): string[] {
  return [
    ...found.filter((name) => !wanted.includes(name)).map((name) => `a ${what} ${name} of nobody`),
    ...wanted.filter((name) => !isPart && !found.includes(name)).map((name) => `no ${what} ${name}`),
    ...(new Set(found).size === found.length ? [] : [`two of ${what} ${found.join(' ')}`]),
  ];
}
