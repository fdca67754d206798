// Adds an authority to the root certificates of an image, of any distribution, without running a program of it.
import { dirname, join } from 'node:path';
import process from 'node:process';
import { AgentError } from '@sandboxd/proto';
import { BEGIN, MARK, readEarlier, withoutEarlier } from './earlier.ts';
import {
  appendTo,
  isDirectory,
  isSame,
  makeDirectory,
  makeLink,
  makeOwn,
  makeOwnDirectory,
  readLink,
  readSmall,
  replaceContent,
  type Version,
  versionAt,
  writeSmall,
} from './files.ts';
import { addToJavaStore, JAVA_STORES } from './java.ts';

export type Authority = {
  /** One certificate in PEM. */
  readonly certificate: string;
  /** As OpenSSL names links to it in a directory. */
  readonly subjectHash: string;
};

export type Installed = {
  /** File of the authority alone. */
  readonly ownPath: string;
  /** File of the root certificates with the authority. */
  readonly bundlePath: string;
  /** Where it could not be added, and why. */
  readonly problems: readonly string[];
};

/** Several times what distributions have; a larger file is not read into memory. */
const MAX_BUNDLE_BYTES = 4 * 1024 * 1024;
/** An image must not fill the disks of all sandboxes by files that none of them has changed. */
const MAX_PREPARED_BYTES = 2 * 1024 * 1024;
const MAX_LINKS = 8;

const OWN_DIRECTORY = '/run/sandbox';
const NAME = 'sandboxd-egress';

/** Bundles of distributions; several may be one file. */
const BUNDLES = [
  // Debian, Ubuntu, Alpine, Arch, Nix, distroless images
  '/etc/ssl/certs/ca-certificates.crt',
  // RHEL, Fedora, Amazon Linux
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/pki/tls/cert.pem',
  // SUSE
  '/etc/ssl/ca-bundle.pem',
  '/var/lib/ca-certificates/ca-bundle.pem',
  // Alpine's OpenSSL, and Nix
  '/etc/ssl/cert.pem',
  '/etc/ssl/certs/ca-bundle.crt',
];

/** Where programs of a distribution look when they make its bundle again. */
const ANCHORS = [
  '/usr/local/share/ca-certificates',
  '/etc/pki/ca-trust/source/anchors',
  '/etc/pki/trust/anchors',
  '/etc/ca-certificates/trust-source/anchors',
];
/** Of Debian and Alpine; made, so that a later installation of their package finds it. */
const MADE_ANCHOR = ANCHORS[0];

/** Where OpenSSL looks for one certificate by its hash. */
const HASHED = '/etc/ssl/certs';

/** Versions of bundles that have no authority of ours and end with a line, as this guest was saved. */
const prepared = new Map<string, Version>();

/**
 * Can be repeated: what is there already is not written. Throws if not even its own files can be written; `problems`
 * has the rest. `root`: of the file system, for tests.
 */
export function installAuthority({ certificate, subjectHash }: Authority, root = ''): Installed {
  const own = join(root, OWN_DIRECTORY);
  const ownPath = join(own, `${NAME}.crt`);
  const earlier = readEarlier(
    [OWN_DIRECTORY, ...ANCHORS].map((path) => join(root, path, `${NAME}.crt`)),
    certificate,
  );
  writeSmall(ownPath, certificate);
  const problems: string[] = [];
  const attempt = <T>(step: () => T): T | undefined => {
    try {
      return step();
    } catch (error) {
      problems.push((error as Error).message);
      return undefined;
    }
  };
  const done: Version[] = [];
  const bundles = BUNDLES.filter((path) =>
    attempt(() => addToBundle(join(root, path), certificate, earlier, done)),
  );
  for (const path of ANCHORS) attempt(() => addAnchor(join(root, path), path, certificate));
  attempt(() => addHashed(join(root, HASHED), certificate, subjectHash));
  for (const path of JAVA_STORES) attempt(() => addToJavaStore(join(root, path), certificate));
  const [first] = bundles;
  const bundlePath = first === undefined ? join(own, `${NAME}-bundle.crt`) : join(root, first);
  if (first === undefined) writeSmall(bundlePath, `${findRoots(root)}\n${MARK}${certificate}`);
  return { ownPath, bundlePath, problems };
}

/**
 * Does what needs no authority, before this guest is saved: bundles and directories are on the writable layer, each as
 * it is, and the kernel has found that they have no file of ours. Bundles that are larger than usual stay where they
 * are. `isOwn`: no other program changes these files.
 */
export function prepareForAuthority(root = '', { isOwn = false } = {}): void {
  let leftBytes = MAX_PREPARED_BYTES;
  prepared.clear();
  for (const path of [...BUNDLES, ...JAVA_STORES].map((each) => join(root, each))) {
    try {
      const found = readSmall(path, MAX_BUNDLE_BYTES);
      if (found === undefined || found.length > leftBytes || !found.includes(BEGIN)) continue;
      leftBytes -= found.length;
      makeOwn(path);
      notePrepared(path, isOwn);
    } catch {
      // Reported when it is to be written.
    }
  }
  for (const path of [...ANCHORS, HASHED]) makeOwnDirectory(join(root, path));
  for (const path of ANCHORS) isDirectory(join(root, path, `${NAME}.crt`));
  isDirectory(join(root, HASHED, `${NAME}.pem`));
}

function notePrepared(path: string, isOwn: boolean): void {
  const found = versionAt(path);
  if (found === undefined || (found.canChange && !isOwn)) return;
  const bundle = readSmall(path, MAX_BUNDLE_BYTES);
  if (bundle === undefined || bundle.includes(MARK) || bundle.at(-1) !== 0x0a) return;
  // A service of the template may write it meanwhile.
  const after = versionAt(path);
  if (after !== undefined && isSame(after.version, found.version)) prepared.set(path, found.version);
}

/** Whether it is a bundle, which now has the authority. `done`: versions of those that got it by another path. */
function addToBundle(
  path: string,
  certificate: string,
  earlier: string | undefined,
  done: Version[],
): boolean {
  const known = prepared.get(path);
  const next = known === undefined ? undefined : appendTo(path, known, `${MARK}${certificate}`);
  if (next !== undefined) {
    done.push(next);
    return true;
  }
  if (done.length > 0) {
    const found = versionAt(path)?.version;
    if (found !== undefined && done.some((each) => isSame(each, found))) return true;
  }
  const before = readSmall(path, MAX_BUNDLE_BYTES);
  // No bundle: a file of /proc has no bytes, and one of /sys no certificates.
  if (before === undefined || !before.includes(BEGIN)) return false;
  if (before.includes(certificate.trim())) return true;
  const kept = withoutEarlier(before, earlier);
  const separator = kept.length === 0 || kept.at(-1) === 0x0a ? '' : '\n';
  replaceContent(path, before, Buffer.concat([kept, Buffer.from(`${separator}${MARK}${certificate}`)]));
  return true;
}

function addAnchor(dir: string, path: string, certificate: string): void {
  if (!isDirectory(dir)) {
    if (path !== MADE_ANCHOR || !isDirectory(dirname(dir))) return;
    makeDirectory(dir);
    if (!isDirectory(dir)) return;
  }
  writeSmall(join(dir, `${NAME}.crt`), certificate);
}

/**
 * As `update-ca-certificates` does: a link of the hash leads to a file whose name stays, so links for an earlier
 * authority lead to this one, and find nothing.
 */
function addHashed(dir: string, certificate: string, subjectHash: string): void {
  if (!isDirectory(dir)) return;
  const name = `${NAME}.pem`;
  writeSmall(join(dir, name), certificate);
  for (let number = 0; number < MAX_LINKS; number++) {
    const link = join(dir, `${subjectHash}.${number}`);
    const found = readLink(link);
    if (found === name) return;
    if (found === undefined) {
      makeLink(link, name);
      return;
    }
  }
  throw new AgentError('conflict', `${HASHED} has ${MAX_LINKS} certificates of the same hash`);
}

/**
 * The image's, or where it has none, or none that is readable, those of Mozilla, which are part of the agent's runtime:
 * programs use the bundle instead of what they have built in.
 */
function findRoots(root: string): string {
  for (const path of BUNDLES) {
    try {
      const found = readSmall(join(root, path), MAX_BUNDLE_BYTES);
      if (found?.includes(BEGIN)) return found.toString();
    } catch {
      // Reported already.
    }
  }
  return process.getBuiltinModule('node:tls').rootCertificates.join('\n');
}
