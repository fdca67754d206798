// States in which the VMM is alive but its guest will never run again.
import { tailFile } from '../../lib/tail.ts';

/** Each state's meaning, as a lower-case phrase. */
const MEANINGS: ReadonlyMap<string, string> = new Map([
  ['internal-error', 'the guest cannot run any further on this host: internal error of the VMM'],
  ['guest-panicked', 'the guest panicked'],
  ['shutdown', 'the guest powered off'],
]);
const LOG_LINES = 2000;
const LOG_BYTES = 256 * 1024;
const MAX_DETAIL = 160;
/** What the VMM prints before the registers of a CPU that it could not run. */
const DETAIL =
  /^(?:KVM internal error|KVM: entry failed|error: kvm run failed|KVM: unknown exit).*(?:\nemulation failure)?/m;

/** Undefined if a guest in that state may continue. */
export async function explainEndState(status: string, logPath: string): Promise<string | undefined> {
  const meaning = MEANINGS.get(status);
  if (status !== 'internal-error') return meaning;
  const detail = DETAIL.exec(await tailFile(logPath, LOG_LINES, LOG_BYTES))?.[0];
  return detail === undefined
    ? meaning
    : `${meaning} (${detail.replace(/\.?\s*\n/, ', ').slice(0, MAX_DETAIL)})`;
}
