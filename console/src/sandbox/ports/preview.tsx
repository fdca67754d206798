// The page of a port, in a frame that has its own origin and reaches nothing of the console.
import type { OpenPort } from '@sandboxd/client';
import { useState } from 'preact/hooks';
import { ActionButton, Button } from '../../parts/button.tsx';

/**
 * What the guest's page may do in the frame: be itself. It opens no windows or dialogs, saves no files, and does not
 * navigate the console. The policy of the console's page lets the frame go to URLs of ports only.
 */
const RIGHTS = 'allow-scripts allow-forms allow-same-origin';

/** A page with the origin of the console would have its key. */
export function canBeShown(url: string | undefined): url is string {
  return (
    /^https?:\/\//.test(url ?? '') && URL.canParse(url ?? '') && new URL(url ?? '').origin !== location.origin
  );
}

type Props = {
  readonly port: OpenPort;
  readonly onPublic: () => unknown;
  readonly onClose: () => void;
};

export function Preview({ port: { port, url, access }, onPublic, onClose }: Props) {
  const [round, setRound] = useState(0);
  if (!canBeShown(url)) return null;
  return (
    <div class="preview">
      <header class="file-head">
        <span>
          Page of the sandbox at port <code>{port}</code>
        </span>
        <span class="preview-actions">
          {access === 'public' && <Button onClick={() => setRound(round + 1)}>Reload</Button>}
          <Button kind="quiet" label="Close the preview" onClick={onClose}>
            ×
          </Button>
        </span>
      </header>
      {access === 'public' ? (
        <iframe
          key={round}
          title={`Page of the sandbox at port ${port}`}
          src={url}
          sandbox={RIGHTS}
          allow=""
          referrerpolicy="no-referrer"
          loading="lazy"
        />
      ) : (
        <div class="state-note">
          <p>
            This port is private, and a private port does not answer in a frame of another page. Open it with
            a link, or make it public: everyone who reaches the ingress can use it then.
          </p>
          <ActionButton needs="connect" onClick={onPublic}>
            Make it public
          </ActionButton>
        </div>
      )}
    </div>
  );
}
