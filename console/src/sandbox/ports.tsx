// The ports of a sandbox: those with a URL, and those that a port of the host leads to.
import type { SandboxInfo } from '@sandboxd/client';
import { useState } from 'preact/hooks';
import { ActionButton, Button } from '../parts/button.tsx';
import { attempt } from '../parts/notices.tsx';
import { Loading, Problem } from '../parts/states.tsx';
import { useLoaded } from '../parts/use-loaded.ts';
import { permits } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';

export function Ports({ info }: { readonly info: SandboxInfo }) {
  const { client, policy } = useSession();
  const { ports } = client.sandboxes.get(info.id);
  const { value, error, reload } = useLoaded(`ports ${info.id}`, (signal) => ports.list({ signal }));
  const [number, setNumber] = useState('');
  const published = info.published ?? [];
  const open = async (event: Event): Promise<void> => {
    event.preventDefault();
    await attempt(() => ports.open(Number(number)));
    setNumber('');
    reload();
  };
  return (
    <section class="panel" aria-labelledby="ports">
      <h2 id="ports">Ports</h2>
      {error !== undefined && <Problem error={error} />}
      {error === undefined && value === undefined && <Loading what="ports" />}
      {value?.length === 0 && published.length === 0 && (
        <p class="faint">No port is open. An open port has a URL if the daemon has an ingress.</p>
      )}
      <ul class="lines">
        {value?.map(({ port, access, url }) => (
          <li key={port}>
            <code>{port}</code> <span class="tag">{access}</span>
            {url !== undefined && isWeb(url) && (
              <a href={url} target="_blank" rel="noopener noreferrer">
                {url}
              </a>
            )}
            {url === undefined && <span class="faint">no ingress</span>}
            <ActionButton
              kind="quiet"
              needs="connect"
              onClick={async () => {
                await attempt(() => ports.close(port));
                reload();
              }}
            >
              Close
            </ActionButton>
          </li>
        ))}
        {published.map(({ host_ip, host_port, guest_port }) => (
          <li key={`${host_ip} ${host_port}`}>
            <code>{guest_port}</code> is at{' '}
            <code>
              {host_ip ?? '*'}:{host_port}
            </code>{' '}
            of the host
          </li>
        ))}
      </ul>
      {permits(policy, 'connect') && (
        <form class="inline-form" onSubmit={(event) => void open(event)}>
          <input
            aria-label="Port to open"
            placeholder="Port"
            inputMode="numeric"
            pattern="[0-9]{1,5}"
            required
            value={number}
            onInput={({ currentTarget }) => setNumber(currentTarget.value)}
          />
          <Button isSubmit>Open</Button>
        </form>
      )}
    </section>
  );
}

/** The daemon makes these addresses; another scheme would be code. */
function isWeb(url: string): boolean {
  return /^https?:\/\//.test(url);
}
