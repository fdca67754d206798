// Finds the agent's virtio-serial port by the name that the host gave it.
import { readdirSync, readFileSync } from 'node:fs';

/** Device path of the port called `name`, or undefined while that port does not exist. */
export function findSerialPort(name: string, root = ''): string | undefined {
  const directory = `${root}/sys/class/virtio-ports`;
  for (const port of list(directory)) {
    try {
      if (readFileSync(`${directory}/${port}/name`, 'utf8').trim() === name) return `${root}/dev/${port}`;
    } catch {
      // The port has no name, or is being removed.
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
