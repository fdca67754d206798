// Reads lists of Debian packages, such as packages.txt.
import { readFileSync } from 'node:fs';
import { ARCHITECTURE } from '@sandboxd/proto';

export type ListedPackage = { readonly name: string; readonly oldest: string };

/** Those for hosts of this architecture. `part` is the title of a section; absent: all sections. */
export function readPackageList(path: string, part?: string): ListedPackage[] {
  const text = readFileSync(path, 'utf8');
  const [head = '', ...sections] = text.split(/^(?=# \[[a-z]+\]$)/m);
  const chosen =
    part === undefined ? [head, ...sections] : sections.filter((each) => each.startsWith(`# [${part}]`));
  return chosen
    .join('')
    .split('\n')
    .flatMap((line) => {
      const [, name, architecture, oldest] =
        /^([a-z0-9][a-z0-9.+-]*)(?:\[([a-z0-9]+)\])?\s+(\S+)/.exec(line) ?? [];
      const isForThisHost = architecture === undefined || architecture === ARCHITECTURE.name;
      return name !== undefined && oldest !== undefined && isForThisHost ? [{ name, oldest }] : [];
    });
}
