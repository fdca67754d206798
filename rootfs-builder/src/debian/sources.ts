// Reads the host's apt sources, so that guests are built from the host's mirrors.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BuilderError } from '../errors.ts';

export type AptSource = {
  uri: string;
  suite: string;
  components: string[];
  /** Path of a key ring, if the source names one. */
  signedBy?: string;
};

/** One-line style: `deb [options] uri suite component…`. Lines that are not binary sources are ignored. */
export function parseOneLineSources(text: string): AptSource[] {
  return text.split('\n').flatMap((line) => {
    const match = /^\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+([^#]+)/.exec(line);
    if (match === null) return [];
    const [, options = '', uri = '', suite = '', components = ''] = match;
    const signedBy = /(?:^|\s)signed-by=(\S+)/.exec(options)?.[1];
    return [toSource(uri, suite, splitWords(components), signedBy)];
  });
}

/** deb822 style: stanzas of `Field: value` with continuation lines. Disabled stanzas are ignored. */
export function parseDeb822Sources(text: string): AptSource[] {
  return text.split(/\n\s*\n/).flatMap((stanza) => {
    const fields = parseStanza(stanza);
    const words = (name: string) => splitWords(fields.get(name) ?? '');
    if (!words('types').includes('deb') || /^(no|false|0)$/i.test(fields.get('enabled') ?? '')) return [];
    const signedBy = words('signed-by')[0];
    // An inline key ("-----BEGIN…") is not a path. Without it, apt verifies with the archive key ring.
    const keyRing = signedBy?.startsWith('/') ? signedBy : undefined;
    return words('uris').flatMap((uri) =>
      words('suites').map((suite) => toSource(uri, suite, words('components'), keyRing)),
    );
  });
}

/** Debian's own sources of a release: the suite, its updates and its security suite, main component only. */
export function selectSuiteSources(sources: AptSource[], suite: string): AptSource[] {
  const suites = [suite, `${suite}-updates`, `${suite}-security`, `${suite}/updates`];
  const selected = sources.filter(
    (source) => suites.includes(source.suite) && source.components.includes('main'),
  );
  const unique = new Map(selected.map((source) => [`${source.uri} ${source.suite}`, source]));
  return [...unique.values()];
}

/** URLs of Debian mirrors. Other repositories also use Debian's suite names, but lack the other releases. */
const DEBIAN_MIRROR = /\/debian(?:-security)?\/?$|^https?:\/\/security\.debian\.org\/?$/;

/**
 * Sources of another release on the host's mirrors: the sources of `hostSuite` and its updates, or of an alias such as
 * `stable`, with the suite replaced.
 */
function moveToSuite(sources: AptSource[], hostSuite: string, suite: string): AptSource[] {
  const own = new RegExp(`^(?:${hostSuite}|stable|testing|unstable|sid)(-updates|-security)?$`);
  return selectSuiteSources(
    sources.flatMap((source) => {
      const match = own.exec(source.suite);
      return match === null || !DEBIAN_MIRROR.test(source.uri)
        ? []
        : [{ ...source, suite: `${suite}${match[1] ?? ''}` }];
    }),
    suite,
  );
}

/** A sources.list line for mmdebstrap, main component only. */
export function toSourceLine(source: AptSource): string {
  const options = source.signedBy === undefined ? '' : `[signed-by=${source.signedBy}] `;
  return `deb ${options}${source.uri} ${source.suite} main`;
}

/**
 * The host's sources for a suite. On another Debian release (`osReleasePath` names it), the same mirrors with the suite
 * replaced. Throws `apt_sources_missing` when there is no source for the suite itself.
 */
export async function readHostSources(
  suite: string,
  aptDirectory = '/etc/apt',
  osReleasePath = '/etc/os-release',
): Promise<AptSource[]> {
  const parts = join(aptDirectory, 'sources.list.d');
  const partNames = (await readdir(parts).catch(() => [])).sort();
  const all: AptSource[] = parseOneLineSources(await readOptional(join(aptDirectory, 'sources.list')));
  for (const name of partNames) {
    const text =
      name.endsWith('.list') || name.endsWith('.sources') ? await readOptional(join(parts, name)) : '';
    all.push(...(name.endsWith('.sources') ? parseDeb822Sources(text) : parseOneLineSources(text)));
  }
  const isComplete = (sources: AptSource[]) => sources.some((source) => source.suite === suite);
  let selected = selectSuiteSources(all, suite);
  if (!isComplete(selected)) {
    const hostSuite = readDebianCodename(await readOptional(osReleasePath));
    if (hostSuite !== undefined) selected = moveToSuite(all, hostSuite, suite);
  }
  if (!isComplete(selected)) {
    const message = `the apt sources below ${aptDirectory} have no Debian "${suite}" with component main; add one, or use --mirror <url>`;
    throw new BuilderError('apt_sources_missing', message);
  }
  return selected;
}

/** Text of /etc/os-release → `bookworm`; undefined for other distributions, whose mirrors have other suites. */
function readDebianCodename(osRelease: string): string | undefined {
  const field = (name: string) => new RegExp(`^${name}="?([a-z]+)"?$`, 'm').exec(osRelease)?.[1];
  return field('ID') === 'debian' ? field('VERSION_CODENAME') : undefined;
}

function toSource(uri: string, suite: string, components: string[], signedBy: string | undefined): AptSource {
  const source = { uri, suite: suite.replace(/\/$/, ''), components };
  return signedBy === undefined ? source : { ...source, signedBy };
}

function parseStanza(stanza: string): Map<string, string> {
  const fields = new Map<string, string>();
  let name = '';
  for (const line of stanza.split('\n')) {
    if (line.startsWith('#')) continue;
    const match = /^([A-Za-z0-9-]+):(.*)$/.exec(line);
    if (match?.[1] !== undefined) name = match[1].toLowerCase();
    fields.set(name, `${fields.get(name) ?? ''} ${match?.[2] ?? line}`.trim());
  }
  return fields;
}

function splitWords(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== '');
}

async function readOptional(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}
