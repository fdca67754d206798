// In which form a one-way exec answers: frames, unless the client asks for JSON and for nothing that frames would do for.
import { EXEC_FORMS, type ExecForm } from '@sandboxd/api';

/** Media ranges that frames are in, too. Clients send them beside `application/json` without a thought. */
const FRAMES = ['*/*', 'application/*', 'application/octet-stream'];

export function toExecForm(accept: string | undefined): ExecForm {
  const ranges = (accept ?? '').split(',').map((range) => range.split(';', 1)[0]?.trim().toLowerCase() ?? '');
  if (ranges.some((range) => FRAMES.includes(range))) return 'application/octet-stream';
  return EXEC_FORMS.find((form) => ranges.includes(form)) ?? 'application/octet-stream';
}
