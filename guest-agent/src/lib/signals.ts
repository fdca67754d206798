// Linux signals by their SIG names.
import { constants } from 'node:os';

const numbers = new Map<string, number>(
  Object.entries(constants.signals).filter(([name]) => !['SIGPOLL', 'SIGIOT', 'SIGUNUSED'].includes(name)),
);
const names = new Map<number, string>([...numbers].map(([name, number]) => [number, name]));

/** Number of `SIGTERM`; undefined for an unknown name. */
export function signalNumber(name: string): number | undefined {
  return numbers.get(name);
}

/** `SIGTERM` for 15; real-time signals as `SIGRTMIN+n`. */
export function signalName(number: number): string {
  return names.get(number) ?? (number >= 34 ? `SIGRTMIN+${number - 34}` : `SIG${number}`);
}
