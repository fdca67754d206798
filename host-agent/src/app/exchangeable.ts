// Files that the operator names and that another user of the host can exchange or write: what the daemon reads there, runs as root or
// boots guests with is that user's then.
import type { Logger } from 'pino';
import { type Config, ConfigError } from '../config/index.ts';
import { findExposure } from '../lib/held-path.ts';
import { type Careless, sayCareless } from './careless.ts';

type Named = Pick<Careless, 'setting' | 'level'> & {
  readonly path: string | undefined;
  /** What another user gets by it. */
  readonly harm: string;
};

const ADVICE =
  'have it, and the directories above it, be root’s and writable by nobody else, or name another';

/** A file that is not there is no finding: what wants it says so. */
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

/** Of a daemon that starts: ConfigError for what it does not start with. */
export async function refuseExchangeable(config: Config, log: Logger): Promise<void> {
  const found = await findExchangeable(config);
  const faults = found.filter(({ level }) => level === 'fault');
  if (faults.length > 0) throw new ConfigError(faults.map(sayCareless));
  for (const each of found) log.warn(sayCareless(each));
}

function namedFiles({ file, enginePrograms, kernelPath, initramfsPath, tls }: Config): readonly Named[] {
  const guests = 'whoever does has all guests';
  // Whoever gets certificates for a daemon may have a user of their own.
  const peers = 'whoever does can answer in this daemon’s place, or let in whom they like';
  return [
    { setting: 'config', level: 'fault', path: file, harm: 'whoever does is root here' },
    ...Object.entries(enginePrograms).map(([name, path]) => ({
      setting: `${name.replaceAll('-', '_')}_program`,
      level: 'fault' as const,
      path,
      harm: 'whoever does is root here',
    })),
    { setting: 'kernel', level: 'fault', path: kernelPath, harm: guests },
    { setting: 'initrd', level: 'fault', path: initramfsPath, harm: guests },
    { setting: 'tls_cert', level: 'warning', path: tls?.certPath, harm: peers },
    { setting: 'tls_key', level: 'warning', path: tls?.keyPath, harm: peers },
    { setting: 'tls_client_ca', level: 'warning', path: tls?.clientCaPath, harm: peers },
  ];
}
