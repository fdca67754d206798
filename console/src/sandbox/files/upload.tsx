// Files of the user's machine, stored in a directory of the sandbox. One of the same name is replaced on demand only.
import { type Files, PreconditionError } from '@sandboxd/client';
import { useRef, useState } from 'preact/hooks';
import { ActionButton } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { formatBytes, toVisible } from '../../parts/format.ts';
import { attempt, notify } from '../../parts/notices.tsx';
import { permits } from '../../session/policy.ts';
import { useSession } from '../../session/use-session.ts';
import { joinPath } from './read-directory.ts';

/** The browser holds the whole file. */
const MAX_BYTES = 512 * 2 ** 20;

type Question = { readonly name: string; readonly answer: (isYes: boolean) => void };

/** `question` is to be drawn. */
export function useUpload(files: Files, path: string, onDone: () => void) {
  const [asked, setAsked] = useState<Question | undefined>();
  const last = useRef<Question | undefined>(undefined);
  const ask = async (name: string): Promise<boolean> => {
    // One question at a time: that of an upload before this one is answered.
    last.current?.answer(false);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const question = { name, answer: resolve };
    last.current = question;
    setAsked(question);
    const isYes = await promise;
    if (last.current === question) setAsked(undefined);
    return isYes;
  };
  const store = async (to: string, one: File): Promise<boolean> => {
    if (one.size > MAX_BYTES)
      throw new Error(`A browser uploads at most ${formatBytes(MAX_BYTES)}; use sandbox cp for this file`);
    const bytes = new Uint8Array(await one.arrayBuffer());
    try {
      await files.replace(to, bytes, { ifNoneMatch: '*' });
    } catch (error) {
      if (!(error instanceof PreconditionError)) throw error;
      if (!(await ask(one.name))) return false;
      await files.replace(to, bytes);
    }
    return true;
  };
  const upload = async (list: Iterable<File>): Promise<void> => {
    for (const one of list) {
      const isDone = await attempt(() => store(joinPath(path, one.name), one));
      if (isDone) notify(`Uploaded ${toVisible(one.name)}`);
    }
    onDone();
  };
  const question = asked && (
    <Confirm
      title="Replace the file?"
      action="Replace"
      onClose={() => asked.answer(false)}
      onConfirm={() => asked.answer(true)}
    >
      <p>
        <code>
          <bdi>{toVisible(joinPath(path, asked.name))}</bdi>
        </code>{' '}
        is there already.
      </p>
    </Confirm>
  );
  return { upload, question };
}

export function UploadButton({ onFiles }: { readonly onFiles: (files: readonly File[]) => unknown }) {
  const { policy } = useSession();
  if (!permits(policy, 'exec')) return <ActionButton needs="exec">Upload</ActionButton>;
  return (
    <label class="button button-plain">
      Upload
      <input
        type="file"
        multiple
        class="hidden"
        onChange={({ currentTarget }) => {
          const chosen = [...(currentTarget.files ?? [])];
          // The same file can be chosen again.
          currentTarget.value = '';
          void onFiles(chosen);
        }}
      />
    </label>
  );
}
