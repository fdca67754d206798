// Isolates VMMs from the host, as configured and as this host supports it.
import type { Logger } from 'pino';
import { AppError } from '../lib/errors.ts';
import { Jail, type JailOptions } from './jail/jail.ts';

export type Isolation = {
  /** Absent: VMMs run with the daemon's user and privileges. */
  readonly jail?: Jail;
  /** Reported to clients. */
  readonly report: { readonly enabled: boolean; readonly missing: readonly string[] };
};

type IsolationOptions = {
  /** Absent: the jail is disabled. */
  readonly jail?: JailOptions | undefined;
  /** Refuse a jail that lacks any part. */
  readonly isRequired: boolean;
  readonly log: Logger;
};

/** AppError unsupported if the host lacks an essential part, or any part when the full jail is required. */
export async function openIsolation({
  jail: options,
  isRequired,
  log,
}: IsolationOptions): Promise<Isolation> {
  if (options === undefined) {
    log.warn(
      'insecure_no_jail: VMMs run with all privileges of this daemon; a guest that escapes from its VMM controls the host',
    );
    return { report: { enabled: false, missing: [] } };
  }
  const jail = await Jail.open(options, log);
  const { missing } = jail;
  if (missing.length > 0 && isRequired) {
    throw new AppError(
      'unsupported',
      `require_isolation: the jail of VMMs is not whole on this host: ${missing.join('; ')}; mend that, or drop require_isolation`,
    );
  }
  if (missing.length > 0) log.warn({ missing }, 'this host does not support all parts of the VMM jail');
  return { jail, report: { enabled: true, missing } };
}
