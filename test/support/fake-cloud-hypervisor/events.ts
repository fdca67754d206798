// The event log: JSON objects over several lines, blank lines between them, written in chunks of any size.
import { writeSync } from 'node:fs';
import { readKnobs } from './knobs.ts';

export class EventLog {
  readonly #fd: number;
  readonly #startedAt = performance.now();

  constructor(fd: number) {
    this.#fd = fd;
  }

  add(source: string, event: string, isLast = false): void {
    const { eventBytes, losesLastEvent } = readKnobs();
    if (isLast && losesLastEvent) return;
    const ms = performance.now() - this.#startedAt;
    const timestamp = { secs: Math.floor(ms / 1000), nanos: Math.floor((ms % 1000) * 1e6) };
    const text = `${JSON.stringify({ timestamp, source, event, properties: null }, null, 2)}\n\n`;
    for (let at = 0; at < text.length; at += eventBytes) writeSync(this.#fd, text.slice(at, at + eventBytes));
  }
}
