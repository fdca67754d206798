// The response format of a non-interactive exec: frames, unless Accept names JSON and no range that includes frames.
import { EXEC_FORMS, type ExecForm } from '@sandboxd/api';

/** Media ranges that include frames. HTTP libraries often add them to `application/json`. */
const FRAMES = ['*/*', 'application/*', 'application/octet-stream'];

export function toExecForm(accept: string | undefined): ExecForm {
  const ranges = (accept ?? '').split(',').map((range) => range.split(';', 1)[0]?.trim().toLowerCase() ?? '');
  if (ranges.some((range) => FRAMES.includes(range))) return 'application/octet-stream';
  return EXEC_FORMS.find((form) => ranges.includes(form)) ?? 'application/octet-stream';
}
