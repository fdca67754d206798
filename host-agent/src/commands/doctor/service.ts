// Checks the systemd unit: its state, and the settings and limits that sandboxes depend on.
import { VERSION } from '../../lib/version.ts';
import { type Finding, fault, type Group, type Host, ok, warning } from './host.ts';

export const SERVICE = 'sandboxd.service';
/** Settings that give a service its own mount namespace, each with the value that does not. */
const OWN_MOUNTS = {
  PrivateTmp: 'no',
  PrivateDevices: 'no',
  PrivateMounts: 'no',
  ProtectSystem: 'no',
  ProtectHome: 'no',
  ProtectKernelTunables: 'no',
  ProtectKernelModules: 'no',
  ProtectKernelLogs: 'no',
  ProtectControlGroups: 'no',
} as const;
const HEALTH_TIMEOUT_MS = 5000;

export const service: Group = {
  name: 'service',
  check: async (host) => {
    if (host.list('/run/systemd/system').length === 0 && host.read('/proc/1/comm') !== 'systemd')
      return [
        warning(
          'systemd',
          'is not what runs this host',
          'have something start the daemon at boot and again when it ends, and end it alone (docs/install.md)',
        ),
      ];
    const properties = await readProperties(host.run, SERVICE, [
      ...['LoadState', 'ActiveState', 'SubState', 'UnitFileState', 'KillMode', 'WatchdogUSec', 'Type'],
      ...Object.keys(OWN_MOUNTS),
    ]);
    if (properties.LoadState !== 'loaded')
      return [
        warning(
          'unit',
          `there is no ${SERVICE}`,
          'install the Debian package, or write one (docs/install.md)',
        ),
      ];
    return [
      checkState(properties),
      checkEnabled(properties),
      checkKillMode(properties),
      checkMounts(properties),
      await checkAnswer(host),
    ].flatMap((findOptions) => findOptions ?? []);
  },
};

type Properties = Readonly<Record<string, string>>;

/** Properties of a systemd unit; empty without systemd. */
export async function readProperties(
  run: Host['run'],
  unit: string,
  names: readonly string[],
): Promise<Properties> {
  const text = (await run('systemctl', 'show', unit, `--property=${names.join(',')}`)) ?? '';
  const pairs = text.split('\n').flatMap((line) => {
    const at = line.indexOf('=');
    return at < 0 ? [] : [[line.slice(0, at), line.slice(at + 1)] as const];
  });
  return Object.fromEntries(pairs);
}

function checkState({ ActiveState: state = 'unknown', SubState: detail }: Properties): Finding {
  if (state === 'active') return ok('state', `${state} (${detail})`);
  return state === 'failed'
    ? fault(
        'state',
        `${state} (${detail})`,
        'journalctl -u sandboxd says why; then systemctl restart sandboxd',
      )
    : warning('state', `${state} (${detail})`, 'systemctl start sandboxd');
}

function checkEnabled({ UnitFileState: state = 'unknown' }: Properties): Finding {
  return state.startsWith('enabled')
    ? ok('at boot', state)
    : warning('at boot', state, 'systemctl enable sandboxd: it would not be there after the next boot');
}

function checkKillMode({ KillMode: mode = 'unknown' }: Properties): Finding {
  return mode === 'process'
    ? ok('kill mode', mode)
    : fault('kill mode', mode, 'KillMode=process in the unit: otherwise a restart ends all sandboxes');
}

function checkMounts(properties: Properties): Finding {
  const changed = Object.entries(OWN_MOUNTS).flatMap(([name, value]) => {
    const seen = properties[name];
    return seen === undefined || seen === '' || seen === value ? [] : [`${name}=${seen}`];
  });
  return changed.length === 0
    ? ok('mounts', 'those of the host')
    : fault(
        'mounts',
        `of its own (${changed.join(', ')})`,
        'take that out of the unit (systemctl edit sandboxd): networks of sandboxes are kept by mounts, and would end with the daemon',
      );
}

/** User ids of the sockets that listen on a TCP port. */
function findListeners(read: Host['read'], port: number): number[] {
  const LISTENING = '0A';
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return ['tcp', 'tcp6'].flatMap((name) =>
    (read(`/proc/net/${name}`) ?? '').split('\n').flatMap((line) => {
      const [, local = '', , state, , , , uid] = line.trim().split(/\s+/);
      return state === LISTENING && local.endsWith(end) ? [Number(uid)] : [];
    }),
  );
}

async function checkAnswer({ config, list, read }: Host): Promise<Finding | undefined> {
  const { listen, tls } = config;
  // A fake host has no daemon, and a TLS certificate may not be trusted by this process.
  if ('path' in listen || tls !== undefined || listen.port === 0 || list('/proc/self').length === 0)
    return undefined;
  const host = listen.host.includes(':') ? `[${listen.host}]` : listen.host;
  const url = `http://${host}:${listen.port}/healthz`;
  // Another process on this port could impersonate the daemon and collect API keys.
  const users = findListeners(read, listen.port);
  if (users.length > 0 && !users.some((user) => user === 0 || user === process.geteuid?.()))
    return fault(
      'answer',
      `${url}: user ${users[0]} listens there, and not the daemon`,
      'end that process, and revoke keys that were sent there; a socket in the file system (--listen unix:/path) cannot be taken by another user',
    );
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS) });
    const { version, engine } = (await answer.json()) as { version?: string; engine?: string };
    if (engine === 'failed')
      return fault(
        'answer',
        `${url}: no engine runs guests, so creates fail`,
        'see the guests above, and journalctl -u sandboxd',
      );
    const trying = engine === 'trying' ? ', trying its engines; creates wait for that' : '';
    if (version === VERSION) return ok('answer', `${url}: version ${version}${trying}`);
    return warning(
      'answer',
      `${url}: version ${version ?? 'unknown'}, and this is ${VERSION}`,
      'systemctl restart sandboxd: sandboxes stay',
    );
  } catch (error) {
    const { message, cause } = error as Error & { cause?: Error };
    return fault('answer', `${url}: ${cause?.message ?? message}`, 'journalctl -u sandboxd');
  }
}

/** Enough for the default limits of sandboxes and clients (lib/descriptors.ts). */
const RECOMMENDED_DESCRIPTORS = 65_536;
const MIN_DESCRIPTORS = 4096;
/** A typical VMM's thread count; its jail allows 256 threads beside those of its vCPUs. */
const THREADS_PER_SANDBOX = 16;

export const limits: Group = {
  name: 'limits',
  check: async (host) => [await checkDescriptors(host), checkProcesses(host)],
};

/** Checks the running daemon's limit, else the unit's, else this process's. */
async function checkDescriptors({ read, run }: Host): Promise<Finding> {
  const { MainPID: pid = '0', LimitNOFILE: unit } = await readProperties(run, SERVICE, [
    'MainPID',
    'LimitNOFILE',
  ]);
  const own = read(`/proc/${pid === '0' ? 'self' : pid}/limits`);
  const count = Number(
    pid === '0' && unit ? unit : (/^Max open files\s+(\d+)/m.exec(own ?? '')?.[1] ?? Number.NaN),
  );
  const whose = pid === '0' ? (unit ? 'a daemon of systemd' : 'a daemon started from here') : 'the daemon';
  const seen = `${whose} may have ${Number.isNaN(count) ? 'an unknown number of' : count} descriptors`;
  const advice = 'LimitNOFILE=1048576 in the unit, or ulimit -n 1048576 before it';
  if (count < MIN_DESCRIPTORS) return fault('descriptors', seen, advice);
  return count >= RECOMMENDED_DESCRIPTORS ? ok('descriptors', seen) : warning('descriptors', seen, advice);
}

function checkProcesses({ read, config }: Host): Finding {
  const required = config.limits.sandboxes * THREADS_PER_SANDBOX;
  const values = (['kernel/pid_max', 'kernel/threads-max'] as const).map((name) => ({
    name,
    value: Number(read(`/proc/sys/${name}`) ?? Number.NaN),
  }));
  const seen = values.map(({ name, value }) => `${name} ${value}`).join(', ');
  const short = values.filter(({ value }) => value < required);
  if (short.length === 0) return ok('processes', seen);
  return warning(
    'processes',
    `${seen}: too few for ${config.limits.sandboxes} sandboxes`,
    `sysctl -w ${short.map(({ name }) => `${name.replace('/', '.')}=4194304`).join(' ')}, and keep it in /etc/sysctl.d; or lower max_sandboxes`,
  );
}
