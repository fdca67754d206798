// An error response in the format of the real VMM: outermost reason first, the operating system's last.

export class Refusal extends Error {
  readonly status: number;
  readonly reasons: readonly string[];

  constructor(status: number, reasons: readonly string[]) {
    super(reasons.join(': '));
    this.status = status;
    this.reasons = reasons;
  }
}

export function apiError(what: string, ...causes: string[]): Refusal {
  return new Refusal(500, ['Error from API', what, ...causes]);
}

/** Error without a VM; it has its own status since 53.0. */
export function noVm(version: string, what: string): Refusal {
  return new Refusal(version === '52' ? 500 : 404, ['Error from API', what, 'VM is not created']);
}

const NUMBERS: Readonly<Record<string, [string, number]>> = {
  ENOENT: ['No such file or directory', 2],
  EEXIST: ['File exists', 17],
  EADDRINUSE: ['Address in use', 98],
  ENOTDIR: ['Not a directory', 20],
  EACCES: ['Permission denied', 13],
};

/** `No such file or directory (os error 2)` */
export function osError(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const [text, number] = NUMBERS[code] ?? [String(error), 5];
  return `${text} (os error ${number})`;
}
