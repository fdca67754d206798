// Finds settings that are valid but weaken the daemon's isolation. The start refuses or logs them, and `sandboxd
// doctor` lists them.
import { readFileSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Logger } from 'pino';
import { type Config, ConfigError } from '../config/index.ts';
import { findExposure } from '../lib/held-path.ts';
import { doRangesOverlap, formatIpv4Range, type Ipv4Range, parseIpv4Range } from '../lib/ipv4.ts';
import { specialKind } from '../network/index.ts';

export type Careless = {
  readonly setting: string;
  /** `fault`: the daemon refuses to start. */
  readonly level: 'warning' | 'fault';
  /** The problem: a lower-case phrase that names the value. */
  readonly seen: string;
  readonly advice: string;
};

type CarelessContext = {
  /** Returns the text of a file; undefined when it cannot be read. */
  readonly read: (path: string) => string | undefined;
  /** Whether a valid key exists, so that every client needs one. */
  readonly hasKey: boolean;
};

/** Debian allocates user ids below this to users, services and systemd's dynamic users. */
const FIRST_FREE_UID = 65_536;
/** No private IPv4 range is wider. */
const MIN_ALLOWED_PREFIX = 8;
/** Ranges that contain no other host; a DNS answer must never lead to them, whatever is allowed (DNS rebinding). */
const MEANINGLESS = ['0.0.0.0/8', '127.0.0.0/8', '224.0.0.0/4', '240.0.0.0/4'].flatMap(toRange);
/** Metadata services of clouds, which hand out the host's credentials (SSRF). */
const METADATA = ['169.254.0.0/16', '168.63.129.16/32', '100.100.100.200/32', '192.0.0.192/32'].flatMap(
  toRange,
);
/** Kernel filesystems, devices, and the host's settings and secrets. */
const SYSTEM_DIRS = ['/proc', '/sys', '/dev', '/etc', '/boot'];
/** Refused as a whole; a directory below may be for images. */
const WHOLES = ['/root', '/home', '/run', '/var/lib', '/usr'];
const WRITABLE_BY_OTHERS = 0o002;

export function findWeakSettings(config: Config, context: CarelessContext): readonly Careless[] {
  return [
    ...findUids(config, context),
    ...config.network.allowedRanges.flatMap(findAllowedRange),
    ...findSubnet(config),
    ...(config.images?.allowedDirs ?? []).flatMap((dir) => findImageDir(dir, config)),
    ...findSockets(config, context),
  ];
}

/** Checks at start: ConfigError for faults, a log line for warnings. */
export function refuseWeakSettings(config: Config, hasKey: boolean, log: Logger): void {
  const found = findWeakSettings(config, { read: readText, hasKey });
  const faults = found.filter(({ level }) => level === 'fault');
  if (faults.length > 0) throw new ConfigError(faults.map(formatCareless));
  for (const each of found) log.warn(formatCareless(each));
}

function formatCareless({ setting, seen, advice }: Careless): string {
  return `${setting}: ${seen}; ${advice}`;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function findUids({ jail }: Config, { read }: CarelessContext): readonly Careless[] {
  if (jail === undefined) return [];
  const { base, count } = jail.uids;
  const setting = 'jail_uid_base';
  const advice = 'leave it out, or choose unused ids (getent passwd, /etc/subuid)';
  const own = `${base} to ${base + count - 1}`;
  if (base < FIRST_FREE_UID) {
    const seen = `VMMs would have the user ids ${own}; ids below ${FIRST_FREE_UID} belong to users and services of this host`;
    return [{ setting, level: 'fault', seen, advice }];
  }
  const taken = [
    // A VMM's group id equals its user id.
    ...['/etc/passwd', '/etc/group'].flatMap((path) =>
      linesOf(read(path)).map(([name = '', , id = '']) => ({ name, first: Number(id), length: 1 })),
    ),
    ...['/etc/subuid', '/etc/subgid'].flatMap((path) =>
      linesOf(read(path)).map(([name = '', first = '', length = '']) => ({
        name: `${name} (${path})`,
        first: Number(first),
        length: Number(length),
      })),
    ),
  ].find(({ first, length }) => first < base + count && first + length > base);
  if (taken === undefined) return [];
  const seen = `VMMs would have the user ids ${own}, some of which belong to ${taken.name}`;
  return [{ setting, level: 'warning', seen, advice }];
}

function linesOf(text: string | undefined): readonly (readonly string[])[] {
  return (text ?? '').split('\n').flatMap((line) => (/^[^#+-]/.test(line) ? [line.split(':')] : []));
}

function findAllowedRange(range: Ipv4Range): readonly Careless[] {
  const setting = 'network_allow_range';
  const shown = formatIpv4Range(range);
  if (range.prefixLength < MIN_ALLOWED_PREFIX || doesTouch(range, MEANINGLESS)) {
    const seen = `${shown} would let DNS answers lead guests to this host, its networks and everything else`;
    return [
      {
        setting,
        level: 'fault',
        seen,
        advice: 'name the private range that guests need, such as 10.1.0.0/16',
      },
    ];
  }
  if (!doesTouch(range, METADATA)) return [];
  const seen = `${shown} contains the metadata address of clouds, which hands out the credentials of this host`;
  return [{ setting, level: 'warning', seen, advice: 'allow only the addresses that guests need' }];
}

function findSubnet({ network: { subnet } }: Config): readonly Careless[] {
  if (subnet === undefined) return [];
  const setting = 'network_subnet';
  const advice = 'leave it out, or take a private range such as 10.87.0.0/16';
  const shown = formatIpv4Range(subnet);
  if (doesTouch(subnet, [...MEANINGLESS, ...METADATA]))
    return [{ setting, level: 'fault', seen: `${shown} cannot be addresses of guests`, advice }];
  if (specialKind(subnet.base) !== undefined) return [];
  const seen = `${shown} is a public range, whose owners this host and its guests could not reach`;
  return [{ setting, level: 'warning', seen, advice }];
}

function doesTouch(range: Ipv4Range, others: readonly Ipv4Range[]): boolean {
  return others.some((other) => doRangesOverlap(range, other));
}

function findImageDir(dir: string, { dataDir, runDir }: Config): readonly Careless[] {
  const real = realPathOf(dir);
  const holds = (own: string): boolean => isWithin(realPathOf(own), real);
  const near =
    [...SYSTEM_DIRS, dataDir, runDir].find((own) => holds(own) || isWithin(real, realPathOf(own))) ??
    WHOLES.find(holds);
  if (near === undefined) return [];
  const what = real === '/' ? 'is all of this host' : `has files of ${near}`;
  const seen = `${dir} ${what}, which any client could boot from and read`;
  const advice = 'give images and archives a directory of their own, such as /srv/images';
  return [{ setting: 'image_path_allow', level: 'fault', seen, advice }];
}

function isWithin(path: string, dir: string): boolean {
  return path === dir || path.startsWith(dir.endsWith('/') ? dir : `${dir}/`);
}

/** Resolves symbolic links; a path that does not exist stays as it is. */
function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}

function findSockets({ listen, metrics }: Config, { hasKey }: CarelessContext): readonly Careless[] {
  const open = [listen, metrics.listen].find(
    (at) => at !== undefined && 'path' in at && (at.mode & WRITABLE_BY_OTHERS) !== 0,
  );
  if (open === undefined || !('path' in open) || hasKey) return [];
  const seen = `mode ${open.mode.toString(8)} of ${open.path} gives every user of this host access, and there is no key`;
  const advice = 'create a key (`sandboxd keys create <name>`), or use 660 with --socket-owner';
  return [{ setting: 'socket_mode', level: 'warning', seen, advice }];
}

function toRange(text: string): readonly Ipv4Range[] {
  const range = parseIpv4Range(text);
  return range === undefined ? [] : [range];
}

// Finds configured files that another user of the host can replace or write. That user would control what the daemon
// reads, runs as root or boots guests with.
type Named = Pick<Careless, 'setting' | 'level'> & {
  readonly path: string | undefined;
  /** What another user gains by it. */
  readonly harm: string;
};

const ADVICE =
  'make the file and its parent directories owned by root and writable by root only, or configure another file';

/** A missing file is not a finding: the code that needs it reports it. */
export async function findExchangeable(config: Config): Promise<readonly Careless[]> {
  const found = await Promise.all(
    namedFiles(config).map(async ({ setting, level, path, harm }) => {
      const exposure = path === undefined ? undefined : await findExposure(path);
      const seen = `${path} ${exposure}: ${harm}`;
      return exposure === undefined ? [] : [{ setting, level, seen, advice: ADVICE }];
    }),
  );
  return found.flat();
}

/** Checks at start: ConfigError for faults, a log line for warnings. */
export async function refuseExchangeable(config: Config, log: Logger): Promise<void> {
  const found = await findExchangeable(config);
  const faults = found.filter(({ level }) => level === 'fault');
  if (faults.length > 0) throw new ConfigError(faults.map(formatCareless));
  for (const each of found) log.warn(formatCareless(each));
}

function namedFiles({
  file,
  enginePrograms,
  kernelPath,
  initramfsPath,
  tls,
  network,
}: Config): readonly Named[] {
  const guests = 'that user controls all guests';
  // A certificate client may write the TLS files as its own user, so these are only warnings.
  const peers = 'that user can impersonate this daemon, or admit any client';
  return [
    { setting: 'config', level: 'fault', path: file, harm: 'that user becomes root on this host' },
    ...Object.entries(enginePrograms).map(([name, path]) => ({
      setting: `${name.replaceAll('-', '_')}_program`,
      level: 'fault' as const,
      path,
      harm: 'that user becomes root on this host',
    })),
    { setting: 'kernel', level: 'fault', path: kernelPath, harm: guests },
    { setting: 'initrd', level: 'fault', path: initramfsPath, harm: guests },
    {
      setting: 'network_presets',
      level: 'fault',
      path: network.presetsFile,
      harm: 'that user decides what guests may reach',
    },
    { setting: 'tls_cert', level: 'warning', path: tls?.certPath, harm: peers },
    { setting: 'tls_key', level: 'warning', path: tls?.keyPath, harm: peers },
    { setting: 'tls_client_ca', level: 'warning', path: tls?.clientCaPath, harm: peers },
  ];
}
