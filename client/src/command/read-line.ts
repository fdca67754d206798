// Input that must not be seen: keys and values of secrets.
import { SandboxdError } from '../errors.ts';
import type { Terminal } from './terminal.ts';

/** Ctrl-C and Ctrl-D, which a terminal in raw mode passes as characters. */
const INTERRUPTS = ['\x03', '\x04'];

/** Reads one line without echo. */
export async function readLine(terminal: Terminal, prompt: string): Promise<string> {
  const { stdin } = terminal;
  if (stdin.isTTY) {
    // Before the prompt, because input that is typed or pasted at once would be echoed.
    stdin.setRawMode(true);
    terminal.note(prompt);
  }
  let text = '';
  try {
    for await (const bytes of stdin) {
      text += String(bytes);
      if (stdin.isTTY && INTERRUPTS.some((each) => text.includes(each)))
        throw new SandboxdError('nothing was given');
      if (/[\r\n]/.test(text)) break;
    }
  } finally {
    if (stdin.isTTY) stdin.setRawMode(false);
  }
  const [line = ''] = text.split(/[\r\n]/, 1);
  // The backspace key.
  let kept = '';
  for (const letter of line) kept = letter === '\x7f' ? kept.slice(0, -1) : kept + letter;
  return kept;
}
