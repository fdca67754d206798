// The files of the console, compressed and in memory, and the headers that confine the page in a browser.
import { createHash } from 'node:crypto';
import { getAssetKeys, getRawAsset, isSea } from 'node:sea';
import { gunzipSync } from 'node:zlib';
import { AppError } from '../lib/errors.ts';

/**
 * Scripts, styles and connections of the daemon alone, and no code made from text: neither inline, nor by `eval`, nor
 * by a sink such as `innerHTML` (trusted types). Names, labels, paths and output of guests are shown by this page.
 * `frames`: the source of pages that it may show, which are those of guests; undefined: none.
 */
const consolePolicy = (frames?: string): string =>
  [...POLICY, ...(frames === undefined ? [] : [`frame-src ${frames}`])].join('; ');

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
];

export const CONSOLE_PAGE = 'index.html';

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

export type ConsoleFile = {
  readonly gzip: Uint8Array<ArrayBuffer>;
  readonly type: string;
  /** With its quotes. */
  readonly etag: string;
};

export class ConsoleFiles {
  readonly #files: ReadonlyMap<string, ConsoleFile>;

  /** Files by name, each compressed with gzip; none: this daemon has no console. */
  constructor(files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>) {
    this.#files = new Map([...files].map(([name, gzip]) => [name, describe(name, gzip)]));
  }

  get hasAny(): boolean {
    return this.#files.size > 0;
  }

  /** AppError unsupported without a console, not_found for another name. */
  get(name: string): ConsoleFile {
    if (this.#files.size === 0) throw new AppError('unsupported', 'this build of the daemon has no console');
    const file = this.#files.get(name);
    if (file === undefined) throw new AppError('not_found', 'the console has no such file; open /console');
    return file;
  }
}

function describe(name: string, gzip: Uint8Array<ArrayBuffer>): ConsoleFile {
  const digest = createHash('sha256').update(gzip).digest('base64url').slice(0, 22);
  return {
    gzip,
    type: TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream',
    etag: `"${digest}"`,
  };
}

const HEADERS = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  // A browser asks each time, so that page and script are of the same daemon; most answers are 304.
  'Cache-Control': 'no-cache',
  Vary: 'Accept-Encoding',
} as const;

export type ConsoleRequest = {
  readonly ifNoneMatch: string | undefined;
  readonly acceptEncoding: string | undefined;
  /** Source of pages that it may show. */
  readonly frames: string | undefined;
};

/** The answer with a file: 200, or 304 without a body. AppError unsupported, not_found. */
export function toConsoleAnswer(files: ConsoleFiles, name: string, request: ConsoleRequest) {
  const file = files.get(name);
  const headers = {
    ...HEADERS,
    'Content-Security-Policy': consolePolicy(request.frames),
    ETag: file.etag,
  };
  if (matches(request.ifNoneMatch, file.etag)) return { status: 304 as const, headers, body: null };
  const isCompressed = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(request.acceptEncoding ?? '');
  return {
    status: 200 as const,
    headers: {
      ...headers,
      'Content-Type': file.type,
      ...(isCompressed && { 'Content-Encoding': 'gzip' }),
    },
    body: isCompressed ? file.gzip : decompress(file),
  };
}

/** By the weak comparison of RFC 9110: proxies that change the encoding mark the ETag as weak. */
function matches(header: string | undefined, etag: string): boolean {
  const tags = header?.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags?.some((tag) => tag === '*' || tag === etag) === true;
}

/** Addresses that people type. Relative, since a proxy may have put a path before them. */
const ENTRANCES: Readonly<Record<string, string>> = { '/': 'console', '/console/': '../console' };

/** Where the console is, for a person that asks for `path`; undefined for all else, and for a program. */
export function toConsoleEntrance(
  files: ConsoleFiles,
  { method, path, accept = '' }: { readonly method: string; readonly path: string; readonly accept?: string },
): string | undefined {
  if ((method !== 'GET' && method !== 'HEAD') || !files.hasAny) return undefined;
  if (!/\btext\/html\b/i.test(accept)) return undefined;
  return Object.hasOwn(ENTRANCES, path) ? ENTRANCES[path] : undefined;
}

const decompressed = new WeakMap<ConsoleFile, Uint8Array<ArrayBuffer>>();

/** For clients that do not decompress. Once for each file: a client without a key may ask at any rate. */
function decompress(file: ConsoleFile): Uint8Array<ArrayBuffer> {
  const known = decompressed.get(file);
  if (known !== undefined) return known;
  const bytes = new Uint8Array(gunzipSync(file.gzip));
  decompressed.set(file, bytes);
  return bytes;
}

/** Prefix of the console's files among the assets of the executable. */
const CONSOLE = 'console/';

/** Those within the executable. Another way to run the program has none. */
export function openConsole(): ConsoleFiles {
  const names = isSea() ? getAssetKeys().filter((name) => name.startsWith(CONSOLE)) : [];
  const files = names.map((name) => [name.slice(CONSOLE.length), new Uint8Array(getRawAsset(name))] as const);
  return new ConsoleFiles(new Map(files));
}
