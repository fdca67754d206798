// The VMM's account of what happened. A hint only: the last events of a VMM that ends may be missing.
import { readFile } from 'node:fs/promises';

export type VmmEvent = { readonly source: string; readonly event: string };

/** Objects behind each other, printed over several lines; one that is cut short at the end is left out. */
export function parseEvents(text: string): VmmEvent[] {
  return text.split(/\n\s*\n/).flatMap((part) => {
    try {
      const { source, event } = JSON.parse(part) as Record<string, unknown>;
      return [{ source: String(source), event: String(event) }];
    } catch {
      return [];
    }
  });
}

/** Empty when there are none. */
export async function readEvents(path: string): Promise<VmmEvent[]> {
  return parseEvents(await readFile(path, 'utf8').catch(() => ''));
}

/** Whether the guest reset itself; the VMM then tries to boot it again. */
export function hasReset(events: readonly VmmEvent[]): boolean {
  return events.some(({ source, event }) => source === 'vm' && event === 'rebooting');
}

export function hasPowerOff(events: readonly VmmEvent[]): boolean {
  return events.some(({ source, event }) => source === 'vmm' && event === 'shutdown');
}

/** Whether the VM was shut down, which comes before its connections break; the VMM ends a while later. */
export function hasShutDown(events: readonly VmmEvent[]): boolean {
  return events.some(({ source, event }) => source === 'vm' && event === 'shutdown');
}
