// The host: its engine and why it was chosen, its profiles, and its figures.
import type { Profiles } from '@sandboxd/client';
import { count, formatBytes, toVisible } from '../parts/format.ts';
import { Panel } from '../parts/panel.tsx';
import { Loading, Problem } from '../parts/states.tsx';
import { useLoaded } from '../parts/use-loaded.ts';
import { daemonUrl } from '../session/session.ts';
import { useClient } from '../session/use-session.ts';
import { Checks } from './checks.tsx';
import { Figures } from './figures.tsx';
import { Hosts } from './hosts.tsx';

type Tried = {
  readonly name: string;
  readonly accelerator: string;
  readonly verdict: string;
  readonly ms: number;
};

export function HostPage() {
  const client = useClient();
  const { value, error, reload } = useLoaded('host', async (signal) => ({
    profiles: await client.profiles({ signal }),
    version: await client.interfaceVersion({ signal }),
  }));
  return (
    <section class="page" aria-labelledby="title">
      <header class="page-head">
        <h1 id="title">Host</h1>
      </header>
      <div class="panels">
        <Hosts />
        <Figures />
        {error !== undefined && <Problem error={error} onRetry={reload} />}
        {error === undefined && value === undefined && <Loading what="the host" />}
        {value !== undefined && (
          <>
            <Engine engine={value.profiles.engine} version={value.version} />
            <ProfileList profiles={value.profiles} />
          </>
        )}
        <Checks />
      </div>
    </section>
  );
}

function Engine({ engine, version }: { readonly engine: Profiles['engine']; readonly version: string }) {
  const tried = (engine?.tried ?? []) as readonly Tried[];
  const accelerator = String(engine?.accelerator ?? '');
  return (
    <Panel id="engine" title="Engine">
      <dl class="facts">
        <div>
          <dt>Engine</dt>
          <dd>
            {toVisible(`${engine?.name || 'none'} ${engine?.version ?? ''}`)}{' '}
            {accelerator !== '' && <span class="tag">{accelerator}</span>}
          </dd>
        </div>
        <div>
          <dt>Why</dt>
          <dd class="untrusted">{toVisible(engine?.reason ?? '')}</dd>
        </div>
        {engine?.jail !== undefined && (
          <div>
            <dt>Jail</dt>
            <dd>
              {engine.jail.enabled ? 'on' : 'off'}
              {engine.jail.missing.length > 0 && `, without ${engine.jail.missing.join(', ')}`}
            </dd>
          </div>
        )}
        <div>
          <dt>Interface</dt>
          <dd>
            {version} · <a href={`${daemonUrl}/docs`}>reference</a>
          </dd>
        </div>
      </dl>
      {tried.length > 0 && (
        <ul class="lines">
          {tried.map(({ name, accelerator: by, verdict, ms }) => (
            <li key={`${name} ${by}`}>
              <code>
                {name} {by}
              </code>
              <span>{toVisible(verdict)}</span>
              <span class="faint">{ms} ms</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function ProfileList({ profiles }: { readonly profiles: Profiles }) {
  return (
    <Panel id="profiles" title="Profiles">
      <ul class="lines">
        {profiles.profiles.map((name) => {
          const details = profiles.details?.[name];
          return (
            <li key={name}>
              <code>{toVisible(name)}</code>
              {name === profiles.default && <span class="tag">default</span>}
              <span class="faint">
                {details === undefined
                  ? 'built by the first sandbox that uses it'
                  : `${formatBytes(details.size_bytes)} · ${count(Object.keys(details.packages).length, 'package')}`}
              </span>
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}
