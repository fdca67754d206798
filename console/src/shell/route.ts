// The address of a page, in the fragment of the URL: it survives a reload, and never reaches a server or its log.

export type Route = {
  /** The decoded parts of the path. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
};

/** Parses `#/sandboxes/sbx_1?tab=files`. A part that is not valid percent-encoding stays as it is. */
export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = splitOnce(hash.replace(/^#?\/?/, ''), '?');
  const parts = path.split('/').filter((part) => part !== '');
  return { path: parts.map(decode), query: new URLSearchParams(query) };
}

export function toHash(path: readonly string[], query?: URLSearchParams): string {
  const text = query?.toString() ?? '';
  return `#/${path.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`;
}

function splitOnce(text: string, by: string): readonly string[] {
  const at = text.indexOf(by);
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + by.length)];
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
