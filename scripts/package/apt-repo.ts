// `make apt-repo`: an apt repository as a folder, for any web server: packages, lists of them, and their signatures.
// Old packages in the folder stay. Its key is the operator's: an id or address of one that gpg has.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';

const POOL = 'pool/main/s/sandboxd';
const KEYRING = 'sandboxd-archive-keyring.gpg';
const WORD = /^[a-z][a-z0-9.-]*$/;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    key: { type: 'string', default: '' },
    out: { type: 'string', default: 'dist/apt' },
    suite: { type: 'string', default: 'stable' },
    /** Where it will be served; for the file that users install. */
    url: { type: 'string', default: 'https://packages.example.com/sandboxd' },
    /** After so many days, machines refuse lists that were not signed again: an old copy of them is an attack. */
    'valid-days': { type: 'string' },
  },
});
if (values.key === '' || positionals.length === 0 || !WORD.test(values.suite)) {
  console.error(
    'usage: apt-repo.ts --key <id of a gpg key> [--out folder] [--suite stable] [--url address] [--valid-days n] <package.deb>…',
  );
  process.exit(2);
}
// Before anything changes: lists without a signature would stop the machines that use them.
try {
  gpg('--list-secret-keys', values.key);
} catch {
  console.error(`gpg has no secret key ${values.key}, or cannot use it`);
  process.exit(1);
}
const out = resolve(values.out);
const suite = join(out, 'dists', values.suite);
mkdirSync(join(out, POOL), { recursive: true });
for (const path of positionals) addPackage(path);
const architectures = findArchitectures();
const lists = new Map(architectures.flatMap(writeLists));
sign(renderRelease(lists));
exportKey();
console.log(`${out}: ${globSync(`${POOL}/*.deb`, { cwd: out }).length} packages, suite ${values.suite}`);

/** A version that is published never changes: machines have its checksum. */
function addPackage(path: string): void {
  const field = (name: string): string =>
    execFileSync('dpkg-deb', ['--field', path, name], { encoding: 'utf8' }).trim();
  const target = join(out, POOL, `${field('Package')}_${field('Version')}_${field('Architecture')}.deb`);
  const isThere = existsSync(target);
  if (isThere && !readFileSync(target).equals(readFileSync(path)))
    throw new Error(`${basename(target)} is in the repository with another content: give it a new version`);
  if (!isThere) putWhole(target, (part) => copyFileSync(path, part));
}

/** Of the packages that are there, by their names. */
function findArchitectures(): string[] {
  const names = globSync(`${POOL}/*.deb`, { cwd: out });
  return [...new Set(names.map((name) => name.replace(/^.*_|\.deb$/g, '')))].sort();
}

/**
 * The lists of one architecture by path. Also by their checksum, so that a machine that has the old Release finds the
 * old lists while new ones come.
 */
function writeLists(architecture: string): [string, Buffer][] {
  const folder = `main/binary-${architecture}`;
  const text = execFileSync('dpkg-scanpackages', ['--multiversion', '--arch', architecture, POOL], {
    cwd: out,
    maxBuffer: 2 ** 28,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const byHash = join(suite, folder, 'by-hash/SHA256');
  mkdirSync(byHash, { recursive: true });
  const lists: [string, Buffer][] = [
    [`${folder}/Packages`, text],
    [`${folder}/Packages.gz`, gzipSync(text)],
  ];
  for (const [path, content] of lists) {
    putWhole(join(byHash, sha256(content)), (part) => writeFileSync(part, content));
    putWhole(join(suite, path), (part) => writeFileSync(part, content));
  }
  return lists;
}

function renderRelease(lists: ReadonlyMap<string, Buffer>): string {
  const days = Number(values['valid-days'] ?? Number.NaN);
  const sums = [...lists].map(([path, content]) => ` ${sha256(content)} ${content.length} ${path}`);
  return [
    'Origin: sandboxd',
    'Label: sandboxd',
    `Suite: ${values.suite}`,
    `Codename: ${values.suite}`,
    `Date: ${new Date().toUTCString()}`,
    ...(days > 0 ? [`Valid-Until: ${new Date(Date.now() + days * 86_400_000).toUTCString()}`] : []),
    `Architectures: ${architectures.join(' ')}`,
    'Components: main',
    'Acquire-By-Hash: yes',
    'SHA256:',
    ...sums,
    '',
  ].join('\n');
}

/** InRelease last: from then on machines use the new lists. */
function sign(release: string): void {
  const plain = join(suite, 'Release');
  putWhole(plain, (part) => writeFileSync(part, release));
  putWhole(`${plain}.gpg`, (part) => gpg('--armor', '--detach-sign', '--output', part, plain));
  putWhole(join(suite, 'InRelease'), (part) => gpg('--clearsign', '--output', part, plain));
}

function exportKey(): void {
  putWhole(join(out, KEYRING), (part) => gpg('--export', '--output', part, values.key));
  const source = [
    'Types: deb',
    `URIs: ${values.url}`,
    `Suites: ${values.suite}`,
    'Components: main',
    `Architectures: ${architectures.join(' ')}`,
    `Signed-By: /usr/share/keyrings/${KEYRING}`,
    '',
  ];
  writeFileSync(join(out, 'sandboxd.sources'), source.join('\n'));
}

function gpg(...args: string[]): void {
  // The `!` of an id of a subkey is gpg's own syntax.
  execFileSync('gpg', ['--batch', '--yes', '--digest-algo', 'SHA256', '--local-user', values.key, ...args], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

/** The name appears with the whole content. */
function putWhole(path: string, write: (part: string) => void): void {
  const part = `${path}.part`;
  rmSync(part, { force: true });
  write(part);
  if (statSync(part).size === 0) throw new Error(`${path} would be empty`);
  renameSync(part, path);
}

function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}
