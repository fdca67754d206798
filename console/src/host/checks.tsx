// What `sandboxd doctor` finds on the host: faults and warnings first, each with what to do.
import { ForbiddenError, type HostChecks, UnsupportedError } from '@sandboxd/client';
import { Copyable } from '../parts/copy.tsx';
import { count, toVisible } from '../parts/format.ts';
import { Panel } from '../parts/panel.tsx';
import { Loading, Problem } from '../parts/states.tsx';
import { useLoaded } from '../parts/use-loaded.ts';
import { permits } from '../session/policy.ts';
import { toSentence } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';

const LEVELS = ['fault', 'warning', 'ok'] as const;
type Finding = HostChecks['groups'][number]['findings'][number];

export function Checks() {
  const { client, policy } = useSession();
  const isPermitted = permits(policy, 'metrics');
  const { value, error, reload } = useLoaded('checks', async (signal) =>
    isPermitted ? await client.checkHost({ signal, timeoutMs: 150_000 }) : undefined,
  );
  // Keys of tenants have none, and gateways of a fleet.
  const isRefused = error instanceof ForbiddenError || error instanceof UnsupportedError;
  return (
    <Panel id="doctor" title="Doctor">
      {!isPermitted && <p class="faint">This key lacks the operation metrics, which shows these findings.</p>}
      {isRefused && <p class="faint untrusted">{toSentence(error)}</p>}
      {error !== undefined && !isRefused && <Problem error={error} onRetry={reload} />}
      {isPermitted && error === undefined && value === undefined && <Loading what="the checks of the host" />}
      {value !== undefined && <Findings report={value} />}
      <p class="faint">On the host, with a guest of each engine as well:</p>
      <div class="command-lines">
        <Copyable label="All checks" text="sudo sandboxd doctor" />
      </div>
    </Panel>
  );
}

function Findings({ report }: { readonly report: HostChecks }) {
  const findings = report.groups.flatMap(({ group, findings }) =>
    findings.map((finding) => ({ group, finding })),
  );
  const counted = LEVELS.map((level) => {
    const { length } = findings.filter(({ finding }) => finding.level === level);
    return level === 'ok' ? `${length} ok` : count(length, level);
  });
  const unwell = LEVELS.flatMap((level) => findings.filter(({ finding }) => finding.level === level)).filter(
    ({ finding }) => finding.level !== 'ok',
  );
  return (
    <>
      <p>{counted.join(', ')}</p>
      <ul class="lines">
        {unwell.map(({ group, finding }) => (
          <li key={`${group} ${finding.name}`}>
            <span class={finding.level === 'fault' ? 'tag tag-bad' : 'tag'}>{finding.level}</span>
            <span>
              {toVisible(group)}: {toVisible(finding.name)}
            </span>
            <Advice finding={finding} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Advice({ finding: { seen, advice } }: { readonly finding: Finding }) {
  return (
    <p class="finding untrusted">
      {toVisible(seen)}
      {advice !== undefined && <span class="faint"> → {toVisible(advice)}</span>}
    </p>
  );
}
