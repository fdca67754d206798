// The ports of a sandbox: those with a URL, those that a port of the host leads to, and a preview of one.
import type { OpenPort, SandboxInfo } from '@sandboxd/client';
import { useState } from 'preact/hooks';
import { ActionButton } from '../../parts/button.tsx';
import { attempt } from '../../parts/notices.tsx';
import { Loading, Problem } from '../../parts/states.tsx';
import { useLoaded } from '../../parts/use-loaded.ts';
import { useClient } from '../../session/use-session.ts';
import { canBeShown, Preview } from './preview.tsx';

const LINK_S = 3600;
const MAX_PORT = 65_535;

export function Ports({ info }: { readonly info: SandboxInfo }) {
  const { ports } = useClient().sandboxes.get(info.id);
  // Another client may open one: its event changes the entry of the list.
  const { value, error, reload } = useLoaded(`ports ${info.id}`, (signal) => ports.list({ signal }));
  const [number, setNumber] = useState('');
  const [previewed, setPreviewed] = useState<number | undefined>();
  /** URLs of new links, by port. They are shown once. */
  const [links, setLinks] = useState<ReadonlyMap<number, string>>(new Map());
  const published = info.published ?? [];
  const change = async (work: () => Promise<unknown>): Promise<void> => {
    await attempt(work);
    reload();
  };
  const open = async (): Promise<void> => {
    const port = Number(number);
    await change(async () => {
      if (!Number.isInteger(port) || port < 1 || port > MAX_PORT)
        throw new Error(`A port is a number from 1 to ${MAX_PORT}`);
      await ports.open(port);
      setNumber('');
    });
  };
  const link = (port: number) =>
    change(async () => {
      const { url } = await ports.link(port, { expiresS: LINK_S });
      setLinks((before) => new Map(before).set(port, url));
    });
  const close = async (port: number): Promise<void> => {
    await change(() => ports.close(port));
    // Its links ended with it.
    setLinks((before) => new Map([...before].filter(([of]) => of !== port)));
  };
  const shown = value?.find(({ port }) => port === previewed);
  return (
    <section class={shown === undefined ? 'panel' : 'panel panel-wide'} aria-labelledby="ports">
      <h2 id="ports">Ports</h2>
      {error !== undefined && <Problem error={error} onRetry={reload} />}
      {error === undefined && value === undefined && <Loading what="ports" />}
      {value?.length === 0 && published.length === 0 && (
        <p class="faint">No port is open. An open port has a URL if the daemon has an ingress.</p>
      )}
      <ul class="lines">
        {value?.map((one) => (
          <li key={one.port}>
            <code>{one.port}</code> <span class="tag">{one.access}</span>
            <Address port={one} link={links.get(one.port)} />
            {one.url !== undefined && one.access === 'private' && (
              <ActionButton kind="quiet" needs="connect" onClick={() => link(one.port)}>
                Make a link
              </ActionButton>
            )}
            {canBeShown(one.url) && (
              <ActionButton
                kind="quiet"
                needs="connect"
                isPressed={one.port === previewed}
                onClick={() => setPreviewed(one.port === previewed ? undefined : one.port)}
              >
                Preview
              </ActionButton>
            )}
            <ActionButton kind="quiet" needs="connect" onClick={() => close(one.port)}>
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
      <form
        class="inline-form"
        onSubmit={(event) => {
          event.preventDefault();
          void open();
        }}
      >
        <input
          aria-label="Port to open"
          placeholder="Port"
          inputMode="numeric"
          value={number}
          onInput={({ currentTarget }) => setNumber(currentTarget.value)}
        />
        <ActionButton needs="connect" onClick={open}>
          Open
        </ActionButton>
      </form>
      {shown !== undefined && (
        <Preview
          key={shown.port}
          port={shown}
          onPublic={() =>
            change(() =>
              ports.open(shown.port, { access: 'public', ...(shown.host && { host: shown.host }) }),
            )
          }
          onClose={() => setPreviewed(undefined)}
        />
      )}
    </section>
  );
}

function Address({ port: { url }, link }: { readonly port: OpenPort; readonly link: string | undefined }) {
  if (url === undefined) return <span class="faint">no ingress</span>;
  // The daemon makes these addresses; another scheme would be code.
  const isWeb = [url, link ?? url].every((each) => /^https?:\/\//.test(each));
  if (!isWeb) return null;
  return (
    <>
      <a href={link ?? url} target="_blank" rel="noopener noreferrer">
        {url}
      </a>
      {link !== undefined && <span class="faint">with a link for an hour</span>}
    </>
  );
}
