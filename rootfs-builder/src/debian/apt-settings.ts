// The host's apt settings for reaching mirrors (proxies, certificates, validity checks), as options for mmdebstrap.
import { mirrorEnvironment, runCommand } from '../lib/command.ts';

const REACHABILITY =
  /^Acquire::(http|https|ftp)::|^Acquire::(Check-Valid-Until|Check-Date|Retries|ForceIPv4|ForceIPv6)\b/;

/** `apt-config dump` text → the settings that decide whether a mirror can be reached, as `Key "value"` lines. */
export function selectReachabilitySettings(dump: string): string[] {
  return dump.split('\n').flatMap((line) => {
    const match = /^(\S+) "(.+)";$/.exec(line);
    if (match === null || !REACHABILITY.test(line)) return [];
    return [`${match[1]} "${match[2]}"`];
  });
}

/** mmdebstrap points apt at the new tree, so the host's own configuration is not seen unless handed over. */
export async function readHostAptSettings(): Promise<string[]> {
  return selectReachabilitySettings(
    await runCommand('apt-config', ['dump', 'Acquire'], { env: mirrorEnvironment() }),
  );
}
