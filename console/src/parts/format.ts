// Numbers, times and untrusted text as people read them.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86_400;

/** `1.4 GiB`; three digits at most. */
export function formatBytes(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1).replace(/\.0$/, '')} ${UNITS[unit]}`;
}

/** `45 s`, `12 min`, `3 h 5 min`, `4 d`. */
export function formatSeconds(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < MINUTE_S) return `${whole} s`;
  if (whole < HOUR_S) return `${Math.floor(whole / MINUTE_S)} min`;
  if (whole < DAY_S) {
    const minutes = Math.floor((whole % HOUR_S) / MINUTE_S);
    return `${Math.floor(whole / HOUR_S)} h${minutes === 0 ? '' : ` ${minutes} min`}`;
  }
  return `${Math.floor(whole / DAY_S)} d`;
}

export function formatTime(iso: string | number): string {
  const date = new Date(iso);
  const day = date.toLocaleDateString('en-CA');
  return `${day === new Date().toLocaleDateString('en-CA') ? '' : `${day} `}${date.toLocaleTimeString('en-GB')}`;
}

/** `2 of 3 sandboxes`, `1 sandbox`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : noun.endsWith('x') ? 'es' : 's'}`;
}

/** Characters that move the cursor, reorder text or cannot be seen. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** One line of untrusted text, in which nothing is invisible or reordered. */
export function toVisible(text: string): string {
  return text.replace(UNSEEN, (each) => `\\u${(each.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`);
}

/** Several lines of untrusted text, such as the sentence of an error. */
export function toVisibleLines(text: string): string {
  return text.split('\n').map(toVisible).join('\n');
}

/** A name for a file on the user's machine. */
export function toFileName(text: string): string {
  return text.replace(UNSEEN, '_').replaceAll(/[/\\]/g, '_');
}

/** A word for a POSIX shell. */
export function toShellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
