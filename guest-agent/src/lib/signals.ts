// Linux signals by their SIG names.
import { constants } from 'node:os';

/** The first real-time signal of glibc, which reserves the two below for itself. */
const SIGRTMIN = 34;
const SIGRTMAX = 64;

const numbers = new Map<string, number>(
  Object.entries(constants.signals).filter(([name]) => !['SIGPOLL', 'SIGIOT', 'SIGUNUSED'].includes(name)),
);
for (let number = SIGRTMIN; number <= SIGRTMAX; number++)
  numbers.set(number === SIGRTMIN ? 'SIGRTMIN' : `SIGRTMIN+${number - SIGRTMIN}`, number);
const names = new Map<number, string>([...numbers].map(([name, number]) => [number, name]));

/** Number of `SIGTERM` or `SIGRTMIN+3`; undefined for an unknown name. */
export function signalNumber(name: string): number | undefined {
  return numbers.get(name);
}

/** `SIGTERM` for 15; real-time signals as `SIGRTMIN+n`. */
export function signalName(number: number): string {
  return names.get(number) ?? `SIG${number}`;
}
