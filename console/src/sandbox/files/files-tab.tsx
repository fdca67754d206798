// The files of a sandbox: their tree, and the directory or file that is open.
import type { SandboxInfo } from '@sandboxd/client';
import { useState } from 'preact/hooks';
import { useStore } from '../../live/store.ts';
import { useInventory } from '../../live/use-inventory.ts';
import { ActionButton } from '../../parts/button.tsx';
import { attempt } from '../../parts/notices.tsx';
import { Empty } from '../../parts/states.tsx';
import { useMedia } from '../../parts/use-media.ts';
import { useClient } from '../../session/use-session.ts';
import { unsaved } from '../../shell/leaving.ts';
import type { Route } from '../../shell/route.ts';
import { replaceQuery } from '../../shell/router.ts';
import { Directory, toTarget } from './directory.tsx';
import { FileView } from './file-view.tsx';
import { FileTree } from './tree.tsx';
import { useUpload } from './upload.tsx';

type Props = { readonly info: SandboxInfo; readonly at: Route };

/** A directory is read by the guest, so that showing one would resume a sandbox. */
export function FilesTab(props: Props) {
  const sandbox = useClient().sandboxes.get(props.info.id);
  const inventory = useInventory();
  const hasUnsaved = useStore(unsaved) !== undefined;
  // A pause takes no text from the user: the file stays, and to save it resumes the sandbox.
  if (props.info.state !== 'paused' || hasUnsaved) return <FileBrowser {...props} />;
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

function FileBrowser({ info: { id }, at }: Props) {
  const { files } = useClient().sandboxes.get(id);
  const path = at.query.get('path') ?? '/';
  const file = at.query.get('file') ?? undefined;
  const [isDropping, setDropping] = useState(false);
  const [version, setVersion] = useState(0);
  const hasTree = useMedia('(min-width: 1001px)');
  const onChange = (): void => setVersion((before) => before + 1);
  const { upload, question } = useUpload(files, path, onChange);
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    setDropping(false);
    void upload([...(event.dataTransfer?.files ?? [])]);
  };
  const keeps = (next: Route): boolean =>
    next.path[1] === id && next.query.get('tab') === 'files' && next.query.get('file') === file;
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
      {hasTree && (
        <FileTree
          files={files}
          path={path}
          file={file}
          version={version}
          onOpen={(entry) => {
            const parent = entry.path.replace(/\/[^/]*$/, '') || '/';
            location.hash = toTarget(id, parent, entry);
          }}
        />
      )}
      {file === undefined ? (
        <Directory {...{ id, files, path, version, onChange }} onUpload={upload} />
      ) : (
        <FileView
          key={file}
          files={files}
          path={file}
          keeps={keeps}
          onClose={() => replaceQuery(new URLSearchParams({ tab: 'files', path }))}
          onSaved={onChange}
        />
      )}
      {question}
    </div>
  );
}
