// Keys and tenants: what this key may do, in words, and how much of its limits and of the quota of its tenant is used.
import type { WhoAmI } from '@sandboxd/client';
import { Meter } from '../parts/charts.tsx';
import { Copyable } from '../parts/copy.tsx';
import { formatSeconds, formatTime, toShellWord, toVisible } from '../parts/format.ts';
import { Panel } from '../parts/panel.tsx';
import { Loading, Problem } from '../parts/states.tsx';
import { usePolled } from '../parts/use-polled.ts';
import { permits } from '../session/policy.ts';
import { useSession } from '../session/use-session.ts';
import { describeBound, describeUse, OPERATIONS } from './words.ts';

const ROUND_MS = 5000;

export function AccessPage() {
  const { client } = useSession();
  const {
    value: caller,
    error,
    reload,
  } = usePolled('access', ROUND_MS, (signal) => client.whoami({ signal }));
  return (
    <section class="page" aria-labelledby="title">
      <header class="page-head">
        <h1 id="title">Keys and tenants</h1>
      </header>
      {caller === undefined && error !== undefined && <Problem error={error} onRetry={reload} />}
      {caller === undefined && error === undefined && <Loading what="the rights of this key" />}
      {caller !== undefined && (
        <div class="panels">
          <Key caller={caller} />
          <Uses caller={caller} />
          <Operations caller={caller} />
          <Management caller={caller} />
        </div>
      )}
    </section>
  );
}

function Key({ caller: { key, scoped } }: { readonly caller: WhoAmI }) {
  const { hasKey } = useSession();
  const tenant = key?.tenant;
  return (
    <Panel id="key" title={hasKey ? 'This key' : 'Access'}>
      {key !== undefined && (
        <dl class="facts">
          <div>
            <dt>Name</dt>
            <dd>
              <bdi>{toVisible(key.name)}</bdi>
            </dd>
          </div>
          <div>
            <dt>Tenant</dt>
            <dd>{tenant === undefined ? <span class="faint">none</span> : <bdi>{toVisible(tenant)}</bdi>}</dd>
          </div>
          <div>
            <dt>Valid</dt>
            <dd>{toValidity(key.expires_at)}</dd>
          </div>
        </dl>
      )}
      <p>
        {!hasKey && 'This daemon has no keys: every client may do everything.'}
        {hasKey && !scoped && 'It may do everything, and sees the sandboxes of all tenants.'}
        {hasKey && scoped && tenant === undefined && 'It sees the sandboxes of all tenants.'}
        {tenant !== undefined && 'It sees what keys of its tenant made, and nothing else.'}
      </p>
    </Panel>
  );
}

function Uses({ caller: { key, usage = [] } }: { readonly caller: WhoAmI }) {
  const groups = [
    { of: 'key', title: 'Limits of this key' },
    { of: 'tenant', title: 'Quota of the tenant, for all its keys' },
  ] as const;
  if (key === undefined) return null;
  return (
    <Panel id="use" title="Use">
      {usage.length === 0 && <p class="faint">No number is limited for this key.</p>}
      {groups.map(({ of, title }) => {
        const own = usage.filter((each) => each.of === of);
        if (own.length === 0) return null;
        return (
          <div key={of} class="uses">
            <h3>{title}</h3>
            <ul>
              {own.map(({ limit, used, max }) => {
                const { name, text } = describeUse(limit, used, max);
                return (
                  <li key={limit}>
                    <span>{name}</span>
                    <Meter value={used} max={max} />
                    <span class="number">{text}</span>
                  </li>
                );
              })}
            </ul>
          </div>
        );
      })}
    </Panel>
  );
}

function Operations({ caller }: { readonly caller: WhoAmI }) {
  const policy = caller.scoped ? caller.policy : undefined;
  const bounds = Object.entries(policy ?? {}).flatMap(([name, value]) => describeBound(name, value) ?? []);
  return (
    <Panel id="rights" title="It may">
      <ul class="lines rights">
        {OPERATIONS.map(([operation, words]) => {
          // The metrics are of all tenants together.
          const isOfAll = operation === 'metrics' && caller.key?.tenant !== undefined;
          const isPermitted = permits(policy, operation) && !isOfAll;
          return (
            <li key={operation} class={isPermitted ? undefined : 'faint'}>
              <span class={`tag tag-${isPermitted ? 'good' : 'plain'}`}>{isPermitted ? 'yes' : 'no'}</span>
              <code>{operation}</code>
              <span>{words}</span>
            </li>
          );
        })}
      </ul>
      {bounds.length > 0 && (
        <ul class="bounds" aria-label="Bounds">
          {bounds.map((bound) => (
            <li key={bound}>
              <bdi>{toVisible(bound)}</bdi>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** No key can make or show another one. */
function Management({ caller: { key } }: { readonly caller: WhoAmI }) {
  const tenant = key?.tenant ?? 'acme';
  return (
    <Panel id="management" title="Other keys and tenants">
      <p>
        Keys and quotas are listed and changed on the daemon’s host only, so that no key can make or see
        another one.
      </p>
      <div class="command-lines">
        <Copyable label="All keys" text="sudo sandboxd keys list" />
        <Copyable label="All tenants" text="sudo sandboxd tenants list" />
        <Copyable
          label="A key that only looks"
          text={`sudo sandboxd keys create viewer --operations view --tenant ${toShellWord(tenant)}`}
        />
      </div>
    </Panel>
  );
}

function toValidity(expiresAt: string | undefined): string {
  if (expiresAt === undefined) return 'until it is revoked';
  const seconds = (Date.parse(expiresAt) - Date.now()) / 1000;
  return `until ${formatTime(expiresAt)}, for ${formatSeconds(seconds)}`;
}
