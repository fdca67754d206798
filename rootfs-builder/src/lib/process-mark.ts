// Names of unfinished files say which process makes them, so that others can remove them after its end.
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';

/** Earlier versions do not say in which namespace the process is: it is one of this. */
const MARK = /^(?:([0-9a-f]{8})\.)?(\d+)-(\d+)(?:-|$)/;

type Self = { readonly namespace: string; readonly pid: string; readonly ticks: string };
let self: Self | undefined;

/** Of this process, without a hyphen behind it. */
export function processMark(): string {
  const { namespace, pid, ticks } = identifySelf();
  return `${namespace}.${pid}-${ticks}`;
}

/**
 * About the process whose mark the name begins with; undefined: it has none. `foreign`: this process may not see that
 * one, as it is in another PID namespace, on another host, or was before a reboot. Only a lock tells whether it lives.
 */
export function judgeMark(name: string): 'alive' | 'dead' | 'foreign' | undefined {
  const [, namespace, pid, ticks] = MARK.exec(name) ?? [];
  if (pid === undefined) return undefined;
  if (namespace !== undefined && namespace !== identifySelf().namespace) return 'foreign';
  return startTicks(pid) === ticks ? 'alive' : 'dead';
}

/** As /proc names this process, which may be mounted for an outer namespace. */
function identifySelf(): Self {
  if (self !== undefined) return self;
  const [pid = ''] = readFileSync('/proc/self/stat', 'latin1').split(' ');
  const where = `${readFileSync('/proc/sys/kernel/random/boot_id', 'latin1')} ${readlinkSync('/proc/self/ns/pid')}`;
  const namespace = createHash('sha256').update(where).digest('hex').slice(0, 8);
  self = { namespace, pid, ticks: startTicks('self') ?? '' };
  return self;
}

/** When the process was started, since boot: in a container, each daemon has the same id. Undefined: there is none. */
function startTicks(pid: string): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field is a name in parentheses, of any characters.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
