// The pages of the package: as in the checkout, so that their links hold. A link to a source file becomes its text.
import { globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/** No LICENSE: debian/copyright takes its place. */
const BESIDE = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'];

/** By the path within the package's documentation, which is the path within the checkout at `root`. */
export function renderPages(root: string): Record<string, Buffer | string> {
  const paths = [...BESIDE, ...globSync('docs/**', { cwd: root })].filter((path) =>
    statSync(join(root, path)).isFile(),
  );
  const packed = new Set(paths.flatMap((path) => [path, `${dirname(path)}/`]));
  return Object.fromEntries(
    paths.map((path) => {
      const bytes = readFileSync(join(root, path));
      return [path, path.endsWith('.md') ? unlink(bytes.toString(), dirname(path), packed) : bytes];
    }),
  );
}

function unlink(text: string, folder: string, packed: ReadonlySet<string>): string {
  return text.replace(
    /\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g,
    (link, label: string, target: string) => (packed.has(normalize(join(folder, target))) ? link : label),
  );
}
