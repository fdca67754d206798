// The files of a sandbox: a directory, and the file that is open.
import { type FileEntry, type Files, PreconditionError, type SandboxInfo } from '@sandboxd/client';
import { useState } from 'preact/hooks';
import { useInventory } from '../../live/use-inventory.ts';
import { ActionButton } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { formatBytes, formatTime, toVisible } from '../../parts/format.ts';
import { attempt, notify } from '../../parts/notices.tsx';
import { Empty, Loading, Problem } from '../../parts/states.tsx';
import { useLoaded } from '../../parts/use-loaded.ts';
import { permits } from '../../session/session.ts';
import { useClient, useSession } from '../../session/use-session.ts';
import { type Route, replaceQuery, toHash } from '../../shell/router.ts';
import { FileView } from './file-view.tsx';
import { save } from './save.ts';

const MAX_ENTRIES = 2000;
/** The browser holds the whole file. */
const MAX_UPLOAD_BYTES = 512 * 2 ** 20;

type Props = { readonly info: SandboxInfo; readonly at: Route };

/** A directory is read by the guest, so that showing one would resume a sandbox. */
export function FilesTab(props: Props) {
  const sandbox = useClient().sandboxes.get(props.info.id);
  const inventory = useInventory();
  if (props.info.state !== 'paused') return <Directory {...props} />;
  return (
    <Empty title="This sandbox is paused">
      <p>Its files are read by its guest, which has to run for that.</p>
      <ActionButton
        kind="primary"
        needs="exec"
        onClick={() => attempt(async () => inventory.put(await sandbox.resume()))}
      >
        Resume it
      </ActionButton>
    </Empty>
  );
}

function Directory({ info, at }: Props) {
  const { files } = useClient().sandboxes.get(info.id);
  const path = at.query.get('path') ?? '/';
  const file = at.query.get('file') ?? undefined;
  const [isDropping, setDropping] = useState(false);
  const [removing, setRemoving] = useState<FileEntry | undefined>();
  const { value, error, reload } = useLoaded(`files ${info.id} ${path}`, async (signal) => {
    const entries: FileEntry[] = [];
    for await (const entry of files.list(path, { signal })) {
      entries.push(entry);
      if (entries.length === MAX_ENTRIES) break;
    }
    return entries.sort(byKindAndName);
  });
  const upload = async (list: Iterable<File>): Promise<void> => {
    for (const one of list) {
      const to = joinPath(path, one.name);
      const isDone = await attempt(async () => {
        if (one.size > MAX_UPLOAD_BYTES)
          throw new Error(
            `A browser uploads at most ${formatBytes(MAX_UPLOAD_BYTES)}; use sandbox cp for this file`,
          );
        return await store(files, to, new Uint8Array(await one.arrayBuffer()), one.name);
      });
      if (isDone) notify(`Uploaded ${toVisible(one.name)}`);
    }
    reload();
  };
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    setDropping(false);
    void upload([...(event.dataTransfer?.files ?? [])]);
  };
  return (
    <div
      class={isDropping ? 'files files-drop' : 'files'}
      onDragOver={(event) => {
        event.preventDefault();
        setDropping(true);
      }}
      onDragLeave={() => setDropping(false)}
      onDrop={onDrop}
    >
      <div class="files-list">
        <div class="toolbar">
          <Crumbs id={info.id} path={path} />
          <Upload onFiles={upload} />
          <ActionButton needs="exec" onClick={() => makeDirectory()}>
            New folder
          </ActionButton>
        </div>
        {error !== undefined && <Problem error={error} onRetry={reload} />}
        {error === undefined && value === undefined && <Loading what="the directory" />}
        {value?.length === 0 && (
          <Empty title="This directory is empty">Drop files here to upload them.</Empty>
        )}
        {value !== undefined && value.length > 0 && (
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
              {value.map((entry) => (
                <Entry
                  key={entry.path_base64 ?? entry.path}
                  entry={entry}
                  href={toTarget(info.id, path, entry)}
                  isOpen={entry.path === file}
                  onSave={() => attempt(() => save(files, entry))}
                  onRemove={() => setRemoving(entry)}
                />
              ))}
            </tbody>
          </table>
        )}
        {value?.length === MAX_ENTRIES && <p class="hint">Only the first {MAX_ENTRIES} entries are shown.</p>}
      </div>
      {file !== undefined && (
        <FileView
          key={file}
          files={files}
          path={file}
          onClose={() => replaceQuery(new URLSearchParams({ tab: 'files', path }))}
          onSaved={reload}
        />
      )}
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

  async function remove({ path: gone, type }: FileEntry): Promise<void> {
    await attempt(() => files.remove(gone, { recursive: type === 'directory' }));
    reload();
  }

  async function makeDirectory(): Promise<void> {
    await attempt(async () => {
      let name = 'new-folder';
      for (let number = 2; await files.exists(joinPath(path, name)); number++) name = `new-folder-${number}`;
      await files.mkdir(joinPath(path, name));
    });
    reload();
  }
}

type EntryProps = {
  readonly entry: FileEntry;
  readonly href: string;
  readonly isOpen: boolean;
  readonly onSave: () => unknown;
  readonly onRemove: () => unknown;
};

function Entry({ entry, href, isOpen, onSave, onRemove }: EntryProps) {
  const name = <bdi>{toVisible(entry.name)}</bdi>;
  // A path that is not UTF-8 cannot be named in a request.
  const canBeNamed = entry.path_base64 === undefined;
  return (
    <tr class={isOpen ? 'row-selected' : undefined}>
      <td class="file-name">
        {canBeNamed ? <a href={href}>{name}</a> : name}
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
        {canBeNamed && entry.type === 'file' && (
          <ActionButton
            kind="quiet"
            needs="read"
            label={`Download ${toVisible(entry.name)}`}
            onClick={onSave}
          >
            ↓
          </ActionButton>
        )}
        {canBeNamed && (
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

function Upload({ onFiles }: { readonly onFiles: (files: readonly File[]) => unknown }) {
  const { policy } = useSession();
  if (!permits(policy, 'exec')) return <ActionButton needs="exec">Upload</ActionButton>;
  return (
    <label class="button button-plain">
      Upload
      <input
        type="file"
        multiple
        class="hidden"
        onChange={({ currentTarget }) => void onFiles([...(currentTarget.files ?? [])])}
      />
    </label>
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

function toDirectory(id: string, path: string): string {
  return toHash(['sandboxes', id], new URLSearchParams({ tab: 'files', path }));
}

function toTarget(id: string, path: string, entry: FileEntry): string {
  if (entry.type === 'directory') return toDirectory(id, entry.path);
  return toHash(['sandboxes', id], new URLSearchParams({ tab: 'files', path, file: entry.path }));
}

export function joinPath(directory: string, name: string): string {
  return `${directory.replace(/\/$/, '')}/${name.replaceAll('/', '_')}`;
}

function byKindAndName(a: FileEntry, b: FileEntry): number {
  const kind = Number(b.type === 'directory') - Number(a.type === 'directory');
  return kind === 0 ? a.name.localeCompare(b.name) : kind;
}

/** Asks before it replaces a file. Resolves with whether it was stored. */
async function store(files: Files, to: string, bytes: Uint8Array, name: string): Promise<boolean> {
  try {
    await files.replace(to, bytes, { ifNoneMatch: '*' });
    return true;
  } catch (error) {
    if (!(error instanceof PreconditionError)) throw error;
    if (!globalThis.confirm(`Replace the file ${toVisible(name)}?`)) return false;
    await files.replace(to, bytes);
    return true;
  }
}
