// Finds configured files that another user of the host can replace or write. That user would control what the daemon
// reads, runs as root or boots guests with.
import type { Logger } from 'pino';
import { type Config, ConfigError } from '../config/index.ts';
import { findExposure } from '../lib/held-path.ts';
import { type Careless, formatCareless } from './careless.ts';

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

function namedFiles({ file, enginePrograms, kernelPath, initramfsPath, tls }: Config): readonly Named[] {
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
    { setting: 'tls_cert', level: 'warning', path: tls?.certPath, harm: peers },
    { setting: 'tls_key', level: 'warning', path: tls?.keyPath, harm: peers },
    { setting: 'tls_client_ca', level: 'warning', path: tls?.clientCaPath, harm: peers },
  ];
}
