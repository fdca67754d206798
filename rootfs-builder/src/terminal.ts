// Shows progress on standard error: one line per step, with the current detail rewritten in place on a terminal.
import type { ProgressEvent } from './lib/progress.ts';

const MAX_NOTE_LENGTH = 60;
const CLEAR_LINE = '\r\x1b[K';

export function printProgress(event: ProgressEvent): void {
  const { stderr } = process;
  const start = stderr.isTTY ? CLEAR_LINE : '';
  if (event.kind === 'done') {
    stderr.write(`${start}  ${event.step}: ${(event.durationMs / 1000).toFixed(1)} s\n`);
  } else if (stderr.isTTY) {
    const note = event.kind === 'note' ? ` ${event.text.slice(0, MAX_NOTE_LENGTH)}` : '';
    stderr.write(`${start}  ${event.step} …${note}`);
  } else {
    stderr.write(event.kind === 'note' ? `    ${event.text}\n` : `  ${event.step} …\n`);
  }
}
