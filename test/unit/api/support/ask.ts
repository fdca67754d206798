// What a schema makes of an input.
import { checkBody, checkParameters } from '@sandboxd/api';
import type { z } from 'zod';

/** The value that came of it, or throws its problem. */
export function accept<S extends z.ZodType>(schema: S, body: unknown): z.output<S> {
  const result = checkBody(schema, body);
  if (result.isValid) return result.value;
  throw new Error(result.problem);
}

/** What is wrong with it; "" when nothing is. */
export function refuse(schema: z.ZodType, body: unknown): string {
  const result = checkBody(schema, body);
  return result.isValid ? '' : result.problem;
}

export function acceptQuery<S extends z.ZodType>(schema: S, text: string): z.output<S> {
  const result = checkParameters(schema, Object.fromEntries(new URLSearchParams(text)));
  if (result.isValid) return result.value;
  throw new Error(result.problem);
}

export function refuseQuery(schema: z.ZodType, text: string): string {
  const result = checkParameters(schema, Object.fromEntries(new URLSearchParams(text)));
  return result.isValid ? '' : result.problem;
}

/** Values of every kind that some field could take or refuse. */
export const POOL: readonly unknown[] = [
  ...[null, true, false, 0, 1, -1, 1.5, 10, 31, 32, 33, 64, 65, 127, 128, 65_535, 65_536, 65_537],
  ...[2 ** 26 - 1, 2 ** 26, 2 ** 31 - 1, 2 ** 31, 2 ** 44, 2 ** 44 + 1, 2 ** 53 - 1, 2 ** 53, -(2 ** 53)],
  ...[
    '',
    'a',
    '/',
    '/x',
    'a:b',
    ':b',
    'a:',
    'a:b:c',
    'a\0',
    '/a\0',
    '\ud800',
    '/\udc00',
    '😀',
    '/😀',
    'a\nb',
  ],
  ...[
    'SIGTERM',
    'SIGFOO',
    'sigterm',
    'never',
    'missing',
    'always',
    'on-failure',
    'tcp',
    'udp',
    'x'.repeat(1025),
  ],
  ...[
    [],
    [''],
    ['x'],
    ['', 'x'],
    ['x', ''],
    ['x', '\ud800'],
    ['x', 'a\0'],
    [null],
    [1],
    ['*'],
    ['a.example'],
  ],
  ...[
    {},
    { A: '1' },
    { '': 'x' },
    { 'A=B': 'x' },
    { A: 1 },
    { A: 'a\0' },
    { A: '\ud800' },
    { 'A\ud800': '' },
  ],
  ...[
    { policy: 'always', max_retries: 2 },
    { policy: 'on-failure', max_retries: 2 },
    { policy: '' },
    { max_retries: -1 },
  ],
  ...[
    { cols: 1, rows: 1 },
    { cols: 0, rows: 1 },
    { cols: 65_535 },
    { oci: 'nginx' },
    { path: '/x' },
    { path: 'x' },
  ],
  ...[
    { oci: 'a', path: '/b' },
    { oci: '', path: '/b' },
    { enabled: true },
    { enabled: false, allowlist: ['a.example'] },
  ],
  ...[
    { enabled: true, allowlist: ['*'] },
    { enabled: true, allowlist: ['A.example.', '*.b.example'] },
    { enabled: 1 },
  ],
  ...[
    [{ host_port: 1, guest_port: 1 }],
    [{ host_port: 0, guest_port: 1 }],
    [{ host_port: 65_535, guest_port: 65_536 }],
  ],
  ...[
    [{ host_port: 1, guest_port: 1, host_ip: '::1', protocol: 'tcp' }],
    [{ host_port: 1, guest_port: 1, host_ip: 'x' }],
  ],
  ...[{ cmd: ['x'] }, { cmd: null }, { cmd: ['x'], user: ':' }],
];
