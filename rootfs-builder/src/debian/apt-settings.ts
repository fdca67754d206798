// The host's apt settings for access to mirrors (proxies, certificates, validity checks), as options for mmdebstrap.
import { mirrorEnvironment, runCommand } from '../lib/command.ts';

const REACHABILITY =
  /^Acquire::(http|https|ftp)::|^Acquire::(Check-Valid-Until|Check-Date|Retries|ForceIPv4|ForceIPv6)\b/;

/** `apt-config dump` text → the settings that affect access to a mirror, as `Key "value"` lines. */
export function selectReachabilitySettings(dump: string): string[] {
  return dump.split('\n').flatMap((line) => {
    const match = /^(\S+) "(.+)";$/.exec(line);
    if (match === null || !REACHABILITY.test(line)) return [];
    return [`${match[1]} "${match[2]}"`];
  });
}

/** mmdebstrap points apt at the new tree, so apt does not see the host's configuration unless it is passed. */
export async function readHostAptSettings(): Promise<string[]> {
  return selectReachabilitySettings(
    await runCommand('apt-config', ['dump', 'Acquire'], { env: mirrorEnvironment() }),
  );
}
