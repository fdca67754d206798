// Formats names and values that a client sent, for error messages.

/** Longest value or name in a message. */
const MAX_SHOWN_CHARS = 80;

/** One step of a path to a nested field: `.name`, `[0]`, or `name` for the first step. */
export function toStep(key: PropertyKey, isFirst: boolean): string {
  if (typeof key === 'number') return `[${key}]`;
  const text = String(key);
  if (!/^[\w-]{1,80}$/.test(text)) return `[${show(text)}]`;
  return isFirst ? text : `.${text}`;
}

/** JSON of a value, truncated to a readable length. */
export function show(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = toJson(value);
  return text.length > MAX_SHOWN_CHARS ? `${text.slice(0, MAX_SHOWN_CHARS - 3)}...` : text;
}

/** JSON.parse accepts any depth, but JSON.stringify can exhaust the stack. */
function toJson(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return 'a value that is nested too deeply';
  }
}
