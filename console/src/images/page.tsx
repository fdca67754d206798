// The container images of the host: pulled with progress by layer, with their sizes, deleted.
import type { ImageInfo } from '@sandboxd/client';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ActionButton } from '../parts/button.tsx';
import { Bar } from '../parts/charts.tsx';
import { Confirm } from '../parts/dialog.tsx';
import { count, formatBytes, formatTime, toVisible } from '../parts/format.ts';
import { attempt, notify } from '../parts/notices.tsx';
import { Empty, Loading, Problem } from '../parts/states.tsx';
import { useLoaded } from '../parts/use-loaded.ts';
import { useClient } from '../session/use-session.ts';
import { EMPTY_PROGRESS, type Progress, withStep } from './progress.ts';

const DIGEST_CHARS = 19;

export function ImagesPage() {
  const client = useClient();
  const { value, error, reload } = useLoaded('images', (signal) => client.images.list({ signal }));
  const [removing, setRemoving] = useState<ImageInfo | undefined>();
  return (
    <section class="page" aria-labelledby="title">
      <header class="page-head">
        <h1 id="title">Images</h1>
        {value !== undefined && (
          <p class="page-count" role="status">
            {count(value.length, 'image')},{' '}
            {formatBytes(value.reduce((sum, each) => sum + (each.size_bytes ?? 0), 0))}
          </p>
        )}
      </header>
      {error === undefined && <Pull onPulled={reload} />}
      {error !== undefined && <Problem error={error} onRetry={reload} />}
      {error === undefined && value === undefined && <Loading what="images" />}
      {value?.length === 0 && (
        <Empty title="No images yet">
          <p>Pull one, or create a sandbox from an image: the daemon pulls it then.</p>
        </Empty>
      )}
      {value !== undefined && value.length > 0 && (
        <table class="plain-table">
          <thead>
            <tr>
              <th>Reference</th>
              <th class="wide">Digest</th>
              <th class="number">Size</th>
              <th class="wide">Converted</th>
              <th>
                <span class="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {[...value].reverse().map((image) => (
              <tr key={image.digest}>
                <td class="file-name">
                  <bdi>{toVisible(toName(image))}</bdi>
                </td>
                <td class="wide">
                  <code title={image.digest}>{toVisible(image.digest.slice(0, DIGEST_CHARS))}</code>
                </td>
                <td class="number">{formatBytes(image.size_bytes ?? 0)}</td>
                <td class="wide">{formatTime(image.converted_at_unix_ms)}</td>
                <td class="row-actions">
                  <ActionButton
                    kind="quiet"
                    needs="images"
                    label={`Delete ${toVisible(toName(image))}`}
                    onClick={() => setRemoving(image)}
                  >
                    ×
                  </ActionButton>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {removing !== undefined && (
        <Confirm
          title="Delete this image?"
          action="Delete"
          onClose={() => setRemoving(undefined)}
          onConfirm={async () => {
            await attempt(() => client.images.delete(removing.digest));
            reload();
          }}
        >
          <p>
            <bdi>{toVisible(toName(removing))}</bdi> is removed from this host. Sandboxes that use it keep
            running.
          </p>
        </Confirm>
      )}
    </section>
  );
}

function Pull({ onPulled }: { readonly onPulled: () => void }) {
  const client = useClient();
  const [ref, setRef] = useState('');
  const [progress, setProgress] = useState<Progress | undefined>();
  const left = useRef(new AbortController());
  useEffect(() => () => left.current.abort(), []);
  const pull = async (): Promise<void> => {
    const name = ref.trim();
    if (name === '' || progress !== undefined) return;
    setProgress(EMPTY_PROGRESS);
    const { signal } = left.current;
    const image = await attempt(async () => {
      try {
        const onProgress = (step: Parameters<typeof withStep>[1]): void =>
          setProgress((before) => withStep(before ?? EMPTY_PROGRESS, step));
        return await client.images.pull(name, { onProgress, signal });
      } catch (error) {
        if (signal.aborted) return undefined;
        throw error;
      }
    });
    if (signal.aborted) return;
    setProgress(undefined);
    if (image === undefined) return;
    setRef('');
    notify(`Pulled ${toVisible(name)}`);
    onPulled();
  };
  return (
    <form
      class="toolbar"
      onSubmit={(event) => {
        event.preventDefault();
        void pull();
      }}
    >
      <input
        class="search"
        aria-label="Reference to pull"
        placeholder="nginx:alpine"
        spellcheck={false}
        autocomplete="off"
        value={ref}
        onInput={({ currentTarget }) => setRef(currentTarget.value)}
      />
      <ActionButton needs="images" kind="primary" isDisabled={progress !== undefined} onClick={pull}>
        {progress === undefined ? 'Pull' : 'Pulling…'}
      </ActionButton>
      {progress !== undefined && (
        <div class="pull">
          <p role="status">
            <bdi>{toVisible(progress.text)}</bdi>
          </p>
          <ul>
            {progress.layers.map(({ id, bytes, totalBytes }) => (
              <li key={id}>
                <code>{toVisible(id)}</code>
                <Bar max={totalBytes} parts={[{ kind: 'own', value: bytes }]} />
                <span class="number">{totalBytes === 0 ? '' : formatBytes(totalBytes)}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
    </form>
  );
}

function toName({ refs, source_ref, digest }: ImageInfo): string {
  return refs !== undefined && refs.length > 0 ? refs.join(', ') : (source_ref ?? digest);
}
