// A file as text, to read and to change. A file that was changed meanwhile is not overwritten.
import { type Files, PreconditionError } from '@sandboxd/client';
import { useEffect, useState } from 'preact/hooks';
import { ActionButton, Button } from '../../parts/button.tsx';
import { formatBytes, toVisible } from '../../parts/format.ts';
import { attempt, notify } from '../../parts/notices.tsx';
import { Loading, Problem } from '../../parts/states.tsx';
import { useLoaded } from '../../parts/use-loaded.ts';
import { permits } from '../../session/policy.ts';
import { useSession } from '../../session/use-session.ts';
import { leave, useUnsaved } from '../../shell/leaving.ts';
import type { Route } from '../../shell/route.ts';

const MAX_TEXT_BYTES = 2 ** 20;

type Props = {
  readonly files: Files;
  readonly path: string;
  readonly onClose: () => void;
  readonly onSaved: () => void;
  /** Whether another page still shows it. */
  readonly keeps: (next: Route) => boolean;
};

export function FileView({ files, path, onClose, onSaved, keeps }: Props) {
  const { policy } = useSession();
  const { value, error, reload } = useLoaded(`file ${path}`, (signal) => read(files, path, signal));
  const [text, setText] = useState<string | undefined>();
  const [saved, setSaved] = useState<string | undefined>();
  const [etag, setEtag] = useState<string | undefined>();
  useEffect(() => {
    setText(value?.text);
    setSaved(value?.text);
    setEtag(value?.etag);
  }, [value]);
  const write = () =>
    attempt(async () => {
      try {
        const entry = await files.replace(path, text ?? '', etag === undefined ? {} : { ifMatch: etag });
        setEtag(entry.etag);
        setSaved(text);
        notify('Saved');
        onSaved();
      } catch (problem) {
        if (problem instanceof PreconditionError)
          throw new Error('The file was changed in the sandbox meanwhile. Open it again before you save.');
        throw problem;
      }
    });
  const isChanged = text !== undefined && text !== saved;
  // A text field of a browser has no carriage returns: to save what it has would change each line.
  const hasReturns = saved?.includes('\r') === true;
  useUnsaved(isChanged, keeps);
  return (
    <section class="file" aria-label="File">
      <header class="file-head">
        <code>
          <bdi>{toVisible(path)}</bdi>
        </code>
        {value !== undefined && <span class="faint">{formatBytes(value.sizeBytes)}</span>}
        {value?.text !== undefined && (
          <ActionButton needs="exec" kind="primary" isDisabled={!isChanged || hasReturns} onClick={write}>
            Save
          </ActionButton>
        )}
        <Button onClick={() => leave(reload)}>Reload</Button>
        <Button kind="quiet" label="Close the file" onClick={() => leave(onClose)}>
          ×
        </Button>
      </header>
      {error !== undefined && <Problem error={error} onRetry={reload} />}
      {error === undefined && value === undefined && <Loading what="the file" />}
      {value !== undefined && value.text === undefined && (
        <p class="state-note">
          {value.sizeBytes > MAX_TEXT_BYTES
            ? 'This file is too long to be shown here.'
            : 'This file is not text.'}{' '}
          Download it to see it.
        </p>
      )}
      {hasReturns && (
        <p class="state-note">
          Lines of this file end with carriage returns, which an editor in a browser cannot keep. It can only
          be read here.
        </p>
      )}
      {text !== undefined && (
        <textarea
          class="editor"
          aria-label={`Content of ${toVisible(path)}`}
          spellcheck={false}
          autocomplete="off"
          readOnly={hasReturns || !permits(policy, 'exec')}
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      )}
    </section>
  );
}

/** `text` is absent if the file is too long or not UTF-8. */
async function read(files: Files, path: string, signal: AbortSignal) {
  const { size_bytes: sizeBytes } = await files.stat(path, { signal });
  if (sizeBytes > MAX_TEXT_BYTES) return { sizeBytes };
  const content = await files.content(path, { signal });
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    let text = '';
    for await (const part of content) {
      text += decoder.decode(part, { stream: true });
      // It may have grown, or never end.
      if (text.length > MAX_TEXT_BYTES) return { sizeBytes: Math.max(sizeBytes, text.length) };
    }
    text += decoder.decode();
    return text.includes('\0') ? { sizeBytes } : { sizeBytes, text, etag: content.etag };
  } catch (error) {
    if (error instanceof TypeError) return { sizeBytes };
    throw error;
  }
}
