// Names and values of a client as messages show them.

/** Of a value or a name in a message. */
const MAX_SHOWN_CHARS = 80;

/** A field behind those that it is in. */
export function toStep(key: PropertyKey, isFirst: boolean): string {
  if (typeof key === 'number') return `[${key}]`;
  const text = String(key);
  if (!/^[\w-]{1,80}$/.test(text)) return `[${show(text)}]`;
  return isFirst ? text : `.${text}`;
}

/** A value as messages show it: JSON, cut to a readable length. */
export function show(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = toJson(value);
  return text.length > MAX_SHOWN_CHARS ? `${text.slice(0, MAX_SHOWN_CHARS - 3)}...` : text;
}

/** JSON.parse takes any depth, JSON.stringify not always. */
function toJson(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return 'a value that is nested too deeply';
  }
}
