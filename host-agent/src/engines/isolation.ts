// What keeps guests from the host, as the configuration wants it and as this host has it.
import type { Logger } from 'pino';
import { AppError } from '../lib/errors.ts';
import { Jail, type JailOptions } from './jail/jail.ts';

export type Isolation = {
  /** Absent: VMMs run as the daemon does. */
  readonly jail?: Jail;
  /** For clients. */
  readonly report: { readonly enabled: boolean; readonly missing: readonly string[] };
};

export type IsolationOptions = {
  /** Absent: there shall be none. */
  readonly jail?: JailOptions | undefined;
  /** A jail that lacks a part will not do. */
  readonly isRequired: boolean;
  readonly log: Logger;
};

/** AppError unsupported where an essential part cannot be had, or any that was required. */
export async function openIsolation({
  jail: options,
  isRequired,
  log,
}: IsolationOptions): Promise<Isolation> {
  if (options === undefined) {
    log.warn('insecure_no_jail: VMMs run as this daemon does; a guest that breaks its VMM has the host');
    return { report: { enabled: false, missing: [] } };
  }
  const jail = await Jail.open(options);
  const { missing } = jail;
  if (missing.length > 0 && isRequired) {
    throw new AppError(
      'unsupported',
      `require_isolation: the jail of VMMs is not whole on this host: ${missing.join('; ')}; mend that, or drop require_isolation`,
    );
  }
  if (missing.length > 0) log.warn({ missing }, 'the jail of VMMs lacks what this host does not have');
  return { jail, report: { enabled: true, missing } };
}
