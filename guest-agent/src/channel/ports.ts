// Finds the virtio-serial port that the host named for the agent.
import { readdirSync, readFileSync } from 'node:fs';

/** Device path of the port called `name`, or undefined while there is none. */
export function findSerialPort(name: string, root = ''): string | undefined {
  const directory = `${root}/sys/class/virtio-ports`;
  for (const port of list(directory)) {
    try {
      if (readFileSync(`${directory}/${port}/name`, 'utf8').trim() === name) return `${root}/dev/${port}`;
    } catch {
      // A port without a name, or one that is just going away.
    }
  }
  return undefined;
}

function list(directory: string): string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    return [];
  }
}
