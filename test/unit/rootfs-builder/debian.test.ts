// Parsing the host's apt configuration, and the derived sources.
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { selectReachabilitySettings } from '../../../rootfs-builder/src/debian/apt-settings.ts';
import {
  parseDeb822Sources,
  parseOneLineSources,
  readHostSources,
  selectSuiteSources,
  toSourceLine,
} from '../../../rootfs-builder/src/debian/sources.ts';
import { mmdebstrapArguments, parseDpkgStatus } from '../../../rootfs-builder/src/debian/tree.ts';
import { parseKernelPackage } from '../../../rootfs-builder/src/kernel/package.ts';

const DEB822 = `# a comment
Types: deb deb-src
# another
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb
URIs: http://a.example/debian-security
  http://b.example/debian-security
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
`;

const ONE_LINE = `
deb http://deb.debian.org/debian bookworm main contrib # trailing words
deb-src http://deb.debian.org/debian bookworm main
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] https://download.docker.com/linux/debian bookworm stable
deb [trusted=yes] http://security.debian.org/ bookworm-security main
`;

t.test('deb822 sources: stanzas, continuation lines, disabled ones, inline keys', async (t) => {
  const sources = selectSuiteSources(parseDeb822Sources(DEB822), 'bookworm');
  t.same(sources.map(toSourceLine), [
    'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main',
    'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-updates main',
    'deb http://a.example/debian-security bookworm-security main',
    'deb http://b.example/debian-security bookworm-security main',
  ]);
});

t.test('one-line sources: options, comments, foreign repositories', async (t) => {
  const all = parseOneLineSources(ONE_LINE);
  t.equal(all[1]?.signedBy, '/k.gpg');
  t.same(selectSuiteSources(all, 'bookworm').map(toSourceLine), [
    'deb http://deb.debian.org/debian bookworm main',
    'deb http://security.debian.org/ bookworm-security main',
  ]);
});

t.test('the error for a host without the suite names the remedy', async (t) => {
  const dir = t.testdir({
    'sources.list': ONE_LINE,
    'sources.list.d': { 'a.sources': DEB822, 'b.save': DEB822 },
  });
  t.equal((await readHostSources('bookworm', dir)).length, 5);
  const osRelease = join(t.testdir({ 'os-release': 'ID=ubuntu\nVERSION_CODENAME=bookworm\n' }), 'os-release');
  await t.rejects(readHostSources('trixie', dir, osRelease), {
    code: 'apt_sources_missing',
    message: /"trixie".*--mirror/,
  });
});

t.test('another release of Debian uses its mirrors, and no other sources', async (t) => {
  const dir = t.testdir({
    'os-release': 'NAME="Debian GNU/Linux"\nVERSION_CODENAME=trixie\nID=debian\n',
    apt: {
      'sources.list.d': {
        'debian.sources': `Types: deb\nURIs: http://deb.debian.org/debian/\nSuites: trixie trixie-updates\nComponents: main
Signed-By: /k.pgp\n\nTypes: deb\nURIs: http://security.debian.org/\nSuites: trixie-security\nComponents: main\n`,
        'browser.list':
          'deb https://dl.example/linux/deb/ stable main\ndeb https://b.example/apt trixie main\n',
      },
    },
  });
  const osRelease = join(dir, 'os-release');
  t.same((await readHostSources('bookworm', join(dir, 'apt'), osRelease)).map(toSourceLine), [
    'deb [signed-by=/k.pgp] http://deb.debian.org/debian/ bookworm main',
    'deb [signed-by=/k.pgp] http://deb.debian.org/debian/ bookworm-updates main',
    'deb http://security.debian.org/ bookworm-security main',
  ]);
});

t.test('parsing sources never throws', async () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      parseDeb822Sources(text);
      parseOneLineSources(text);
    }),
  );
});

t.test('only settings about reaching mirrors are handed over, and only those with a value', async (t) => {
  const dump = [
    'Acquire "";',
    'Acquire::http "";',
    'Acquire::http::Proxy "http://proxy:3128/";',
    'Acquire::https::CaInfo "/ca.pem";',
    'Acquire::Check-Valid-Until "false";',
    'Acquire::IndexTargets::deb::Packages::MetaKey "x";',
  ].join('\n');
  t.same(selectReachabilitySettings(dump), [
    'Acquire::http::Proxy "http://proxy:3128/"',
    'Acquire::https::CaInfo "/ca.pem"',
    'Acquire::Check-Valid-Until "false"',
  ]);
});

t.test('the mmdebstrap command line', async (t) => {
  const recipe = { suite: 'bookworm', variant: 'minbase', packages: ['a', 'b'] };
  const sources = [{ uri: 'http://m/debian', suite: 'bookworm', components: ['main'] }];
  const args = mmdebstrapArguments(recipe, '/t.tar.zst', { sources, aptSettings: ['A "b"'] });
  t.ok(args.includes('--include=a,b'));
  t.ok(args.includes('--aptopt=A "b"'));
  t.notOk(args.some((arg) => arg.startsWith('--customize-hook')));
  const hooked = mmdebstrapArguments({ ...recipe, users: ['user'] }, '/t', { sources, aptSettings: [] });
  t.match(
    hooked.find((arg) => arg.startsWith('--customize-hook')),
    /chroot "\$1" useradd .* user$/,
  );
  t.same(args.slice(-3), ['bookworm', '/t.tar.zst', 'deb http://m/debian bookworm main']);
  const bare = mmdebstrapArguments({ ...recipe, packages: [] }, '/t', {
    sources,
    mirror: 'http://x',
    aptSettings: [],
  });
  t.notOk(bare.some((arg) => arg.startsWith('--include')));
  t.equal(bare.at(-1), 'http://x');
});

t.test('package versions come from installed packages only', async (t) => {
  const status = [
    'Package: b\nStatus: install ok installed\nVersion: 1:2-3\nDescription: x\n Version: no',
    'Package: a\nStatus: install ok installed\nVersion: 1',
    'Package: gone\nStatus: deinstall ok config-files\nVersion: 9',
  ].join('\n\n');
  const packages = parseDpkgStatus(status);
  t.same(Object.entries(packages), [
    ['a', '1'],
    ['b', '1:2-3'],
  ]);
});

t.test('the kernel package is the exact dependency of the meta package', async (t) => {
  const text = 'Package: linux-image-cloud-amd64\nDepends: linux-image-6.1.0-9-cloud-amd64 (= 6.1.27-1)\n';
  t.same(parseKernelPackage(text), { name: 'linux-image-6.1.0-9-cloud-amd64', version: '6.1.27-1' });
  t.equal(parseKernelPackage('N: no such package'), undefined);
});
