// The host: its engine and why it was chosen, its profiles, and what this key may do.
import type { Profiles } from '@sandboxd/client';
import type { ComponentChildren } from 'preact';
import { count, formatBytes, toVisible } from '../parts/format.ts';
import { Loading, Problem } from '../parts/states.tsx';
import { useLoaded } from '../parts/use-loaded.ts';
import { daemonUrl, type Policy } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';

type Tried = {
  readonly name: string;
  readonly accelerator: string;
  readonly verdict: string;
  readonly ms: number;
};

export function HostPage() {
  const { client, policy, hasKey } = useSession();
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
        {error !== undefined && <Problem error={error} onRetry={reload} />}
        {error === undefined && value === undefined && <Loading what="the host" />}
        {value !== undefined && (
          <>
            <Engine engine={value.profiles.engine} version={value.version} />
            <ProfileList profiles={value.profiles} />
          </>
        )}
        <Rights policy={policy} hasKey={hasKey} />
      </div>
    </section>
  );
}

function Panel({
  id,
  title,
  children,
}: {
  readonly id: string;
  readonly title: string;
  readonly children: ComponentChildren;
}) {
  return (
    <section class="panel" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
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
            {engine?.name || 'none'} {engine?.version}{' '}
            {accelerator !== '' && <span class="tag">{accelerator}</span>}
          </dd>
        </div>
        <div>
          <dt>Why</dt>
          <dd class="untrusted">{engine?.reason ?? ''}</dd>
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
              <span>{verdict}</span>
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

function Rights({ policy, hasKey }: { readonly policy: Policy | undefined; readonly hasKey: boolean }) {
  return (
    <Panel id="rights" title={hasKey ? 'This key' : 'Access'}>
      {policy === undefined && (
        <p>{hasKey ? 'It may do everything.' : 'This daemon has no keys: every client may do everything.'}</p>
      )}
      {policy !== undefined && (
        <dl class="facts">
          {policy.operations === undefined && (
            <div>
              <dt>operations</dt>
              <dd>all, within its tenant</dd>
            </div>
          )}
          {Object.entries(policy).map(([name, value]) => (
            <div key={name}>
              <dt>{name.replaceAll('_', ' ')}</dt>
              <dd>
                {Array.isArray(value) ? value.map(String).map(toVisible).join(', ') || 'none' : String(value)}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </Panel>
  );
}
