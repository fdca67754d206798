// The tree of files: a directory is read when it is opened. Arrows move and open, as trees of desktops do.
import type { FileEntry, Files } from '@sandboxd/client';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { toVisible } from '../../parts/format.ts';
import { endIfRefused, toSentence } from '../../session/session.ts';
import { canBeNamed, readDirectory, withParents } from './read-directory.ts';
import { type Branch, type Row, toRows } from './tree-rows.ts';

const MAX_ENTRIES = 500;

type Props = {
  readonly files: Files;
  /** The directory that is shown, and the file that is open. */
  readonly path: string;
  readonly file: string | undefined;
  /** Counts the changes that this page made. */
  readonly version: number;
  readonly onOpen: (entry: FileEntry) => void;
};

export function FileTree({ files, path, file, version, onOpen }: Props) {
  const { branches, open, setOpen } = useBranches(files, path, version);
  const rows = useMemo(() => toRows(branches, open), [branches, open]);
  const entries = rows.filter((row) => row.kind === 'entry');
  const current = file ?? path;
  const [focused, setFocused] = useState(current);
  const area = useRef<HTMLDivElement>(null);
  // One row is in the order of the tab key: the one that had the focus, or the first.
  const at = Math.max(
    0,
    entries.findIndex(({ entry }) => entry.path === focused),
  );
  const focus = (index: number): void => {
    const next = entries[Math.min(entries.length - 1, Math.max(0, index))];
    if (next === undefined) return;
    setFocused(next.entry.path);
    const rowOf = (each: Element): boolean => each.getAttribute('data-path') === next.entry.path;
    const row = [...(area.current?.querySelectorAll('[data-path]') ?? [])].find(rowOf);
    if (row instanceof HTMLElement) row.focus();
  };
  const toggle = (target: string): void => {
    const next = new Set(open);
    if (!next.delete(target)) next.add(target);
    setOpen(next);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const row = entries[at];
    if (row === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const { entry, isOpen } = row;
    const isDirectory = entry.type === 'directory' && canBeNamed(entry);
    const keys: Readonly<Record<string, () => void>> = {
      ArrowDown: () => focus(at + 1),
      ArrowUp: () => focus(at - 1),
      Home: () => focus(0),
      End: () => focus(entries.length - 1),
      ArrowRight: () => {
        if (isDirectory && !isOpen) toggle(entry.path);
        else if (isDirectory) focus(at + 1);
      },
      ArrowLeft: () => {
        if (isOpen) toggle(entry.path);
        else if (row.depth > 1)
          focus(entries.findLastIndex((other, index) => index < at && other.depth < row.depth));
      },
      Enter: () => canBeNamed(entry) && onOpen(entry),
    };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]?.();
  };
  return (
    <div class="file-tree" ref={area} role="tree" aria-label="Files" tabIndex={entries.length === 0 ? 0 : -1}>
      {rows.map((row) =>
        row.kind === 'note' ? (
          <div
            key={row.id}
            role="treeitem"
            aria-level={row.depth}
            aria-disabled="true"
            class={`file-tree-row faint level-${levelOf(row)}`}
          >
            {row.text}
          </div>
        ) : (
          <TreeRow
            key={row.entry.path_base64 ?? row.entry.path}
            row={row}
            isCurrent={row.entry.path === current}
            isFocused={entries[at] === row}
            onKeyDown={onKeyDown}
            onToggle={() => toggle(row.entry.path)}
            onOpen={() => {
              setFocused(row.entry.path);
              onOpen(row.entry);
            }}
          />
        ),
      )}
    </div>
  );
}

type RowProps = {
  readonly row: Extract<Row, { readonly kind: 'entry' }>;
  readonly isCurrent: boolean;
  readonly isFocused: boolean;
  readonly onKeyDown: (event: KeyboardEvent) => void;
  readonly onToggle: () => void;
  readonly onOpen: () => void;
};

function TreeRow({ row, isCurrent, isFocused, onKeyDown, onToggle, onOpen }: RowProps) {
  const { entry, depth, isOpen } = row;
  const isNamed = canBeNamed(entry);
  const isDirectory = entry.type === 'directory';
  return (
    <div
      role="treeitem"
      aria-level={depth}
      aria-selected={isCurrent}
      aria-expanded={isDirectory ? isOpen : undefined}
      aria-disabled={isNamed ? undefined : 'true'}
      tabIndex={isFocused ? 0 : -1}
      data-path={entry.path}
      class={`file-tree-row level-${levelOf(row)}`}
      onKeyDown={onKeyDown}
      onClick={() => isNamed && onOpen()}
    >
      <span
        class="file-tree-mark"
        aria-hidden="true"
        onClick={(event) => {
          event.stopPropagation();
          if (isDirectory && isNamed) onToggle();
        }}
      >
        {isDirectory ? (isOpen ? '▾' : '▸') : ''}
      </span>
      <bdi>{toVisible(entry.name)}</bdi>
    </div>
  );
}

/** The listings of the directories that are open. Those of a directory that is closed are forgotten. */
function useBranches(files: Files, path: string, version: number) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set(withParents(path)));
  const [branches, setBranches] = useState<ReadonlyMap<string, Branch>>(new Map());
  const left = useRef(new AbortController());
  const asked = useRef(new Set<string>());
  const put = (of: string, branch: Branch): void =>
    setBranches((before) => (asked.current.has(of) ? new Map(before).set(of, branch) : before));
  const load = (of: string): void => {
    const { signal } = left.current;
    readDirectory(files, of, MAX_ENTRIES, signal).then(
      (listing) => put(of, listing),
      (error: unknown) => signal.aborted || endIfRefused(error) || put(of, { problem: toSentence(error) }),
    );
  };
  useEffect(() => () => left.current.abort(), []);
  useEffect(() => setOpen((before) => new Set([...before, ...withParents(path)])), [path]);
  useEffect(() => {
    for (const each of open) {
      if (asked.current.has(each)) continue;
      asked.current.add(each);
      load(each);
    }
    const closed = [...asked.current].filter((each) => !open.has(each));
    for (const each of closed) asked.current.delete(each);
    if (closed.length > 0) setBranches((before) => new Map([...before].filter(([of]) => open.has(of))));
  }, [open]);
  useEffect(() => {
    if (version > 0) load(path);
  }, [version]);
  return { branches, open, setOpen };
}

/** Styles have this many steps. */
const MAX_LEVEL = 12;

function levelOf({ depth }: Row): number {
  return Math.min(depth, MAX_LEVEL);
}
