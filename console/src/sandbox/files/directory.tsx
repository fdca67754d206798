// The entries of a directory: opened, downloaded, removed; files are uploaded into it.
import type { FileEntry, Files } from '@sandboxd/client';
import { useEffect, useState } from 'preact/hooks';
import { ActionButton } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { formatBytes, formatTime, toVisible } from '../../parts/format.ts';
import { attempt } from '../../parts/notices.tsx';
import { Empty, Loading, Problem } from '../../parts/states.tsx';
import { useLoaded } from '../../parts/use-loaded.ts';
import { toHash } from '../../shell/route.ts';
import { canBeNamed, joinPath, readDirectory } from './read-directory.ts';
import { save } from './save.ts';
import { UploadButton } from './upload.tsx';

const MAX_ENTRIES = 2000;

type Props = {
  readonly id: string;
  readonly files: Files;
  readonly path: string;
  /** Counts the changes that this page made. */
  readonly version: number;
  readonly onChange: () => void;
  readonly onUpload: (files: readonly File[]) => unknown;
};

export function Directory({ id, files, path, version, onChange, onUpload }: Props) {
  const [removing, setRemoving] = useState<FileEntry | undefined>();
  const { value, error, reload } = useLoaded(`files ${id} ${path}`, (signal) =>
    readDirectory(files, path, MAX_ENTRIES, signal),
  );
  useEffect(() => {
    if (version > 0) reload();
  }, [version]);
  const remove = async ({ path: gone, type }: FileEntry): Promise<void> => {
    await attempt(() => files.remove(gone, { recursive: type === 'directory' }));
    onChange();
  };
  const makeDirectory = async (): Promise<void> => {
    await attempt(async () => {
      let name = 'new-folder';
      for (let number = 2; await files.exists(joinPath(path, name)); number++) name = `new-folder-${number}`;
      await files.mkdir(joinPath(path, name));
    });
    onChange();
  };
  return (
    <div class="files-list">
      <div class="toolbar">
        <Crumbs id={id} path={path} />
        <UploadButton onFiles={onUpload} />
        <ActionButton needs="exec" onClick={makeDirectory}>
          New folder
        </ActionButton>
      </div>
      {error !== undefined && <Problem error={error} onRetry={reload} />}
      {error === undefined && value === undefined && <Loading what="the directory" />}
      {value?.entries.length === 0 && (
        <Empty title="This directory is empty">Drop files here to upload them.</Empty>
      )}
      {value !== undefined && value.entries.length > 0 && (
        <table class="plain-table">
          <thead>
            <tr>
              <th>Name</th>
              <th class="number">Size</th>
              <th class="wide">Mode</th>
              <th class="wide">Owner</th>
              <th class="wide">Changed</th>
              <th>
                <span class="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {value.entries.map((entry) => (
              <Entry
                key={entry.path_base64 ?? entry.path}
                entry={entry}
                href={toTarget(id, path, entry)}
                onSave={() => attempt(() => save(files, entry))}
                onRemove={() => setRemoving(entry)}
              />
            ))}
          </tbody>
        </table>
      )}
      {value?.hasMore && <p class="hint">Only the first {MAX_ENTRIES} entries are shown.</p>}
      {removing !== undefined && (
        <Confirm
          title="Remove from the sandbox?"
          action="Remove"
          onClose={() => setRemoving(undefined)}
          onConfirm={() => remove(removing)}
        >
          <p>
            <code>
              <bdi>{toVisible(removing.path)}</bdi>
            </code>
            {removing.type === 'directory' && ' and everything in it'}
          </p>
        </Confirm>
      )}
    </div>
  );
}

type EntryProps = {
  readonly entry: FileEntry;
  readonly href: string;
  readonly onSave: () => unknown;
  readonly onRemove: () => unknown;
};

function Entry({ entry, href, onSave, onRemove }: EntryProps) {
  const name = <bdi>{toVisible(entry.name)}</bdi>;
  const isNamed = canBeNamed(entry);
  return (
    <tr>
      <td class="file-name">
        {isNamed ? <a href={href}>{name}</a> : name}
        {entry.type === 'directory' && '/'}
        {entry.target !== undefined && (
          <span class="faint">
            {' '}
            → <bdi>{toVisible(entry.target)}</bdi>
          </span>
        )}
      </td>
      <td class="number">{entry.type === 'file' ? formatBytes(entry.size_bytes) : ''}</td>
      <td class="wide">
        <code>{entry.mode}</code>
      </td>
      <td class="wide">
        <bdi>{toVisible(entry.user ?? String(entry.uid))}</bdi>
      </td>
      <td class="wide">{formatTime(entry.modified_at)}</td>
      <td class="row-actions">
        {isNamed && entry.type === 'file' && (
          <ActionButton
            kind="quiet"
            needs="read"
            label={`Download ${toVisible(entry.name)}`}
            onClick={onSave}
          >
            ↓
          </ActionButton>
        )}
        {isNamed && (
          <ActionButton
            kind="quiet"
            needs="exec"
            label={`Remove ${toVisible(entry.name)}`}
            onClick={onRemove}
          >
            ×
          </ActionButton>
        )}
      </td>
    </tr>
  );
}

function Crumbs({ id, path }: { readonly id: string; readonly path: string }) {
  const parts = path.split('/').filter(Boolean);
  return (
    <nav class="crumbs" aria-label="Path">
      <a href={toDirectory(id, '/')}>/</a>
      {parts.map((part, at) => (
        <a
          key={parts.slice(0, at + 1).join('/')}
          href={toDirectory(id, `/${parts.slice(0, at + 1).join('/')}`)}
        >
          <bdi>{toVisible(part)}</bdi>/
        </a>
      ))}
    </nav>
  );
}

export function toDirectory(id: string, path: string): string {
  return toHash(['sandboxes', id], new URLSearchParams({ tab: 'files', path }));
}

export function toTarget(id: string, path: string, entry: Pick<FileEntry, 'type' | 'path'>): string {
  if (entry.type === 'directory') return toDirectory(id, entry.path);
  return toHash(['sandboxes', id], new URLSearchParams({ tab: 'files', path, file: entry.path }));
}
