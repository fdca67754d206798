// A real Prometheus reads the daemon's metrics; its checker reads docs/alerts.yml, and the dashboard asks for what there is.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { Metrics, measureHost, measureProcess } from '../../host-agent/src/metrics/metrics.ts';
import { measureSandboxes } from '../../host-agent/src/sandboxes/metrics.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { openKeyring } from './keyed.ts';
import { serve } from './support.ts';

const DOCS = resolve(import.meta.dirname, '../../docs');
const run = promisify(execFile);

async function openMetrics(t: Test): Promise<Metrics> {
  const { manager } = await startMemoryDaemon(t);
  await manager.create({});
  const metrics = new Metrics();
  const process = measureProcess(metrics, '0.0.0');
  t.teardown(() => process[Symbol.dispose]());
  measureHost(metrics, {
    registryPath: '/dev/null',
    users: { leasesDir: '/nothing', count: 4 },
    usedNetworks: () => 0,
    egressCounts: () => [{ labels: { verdict: 'denied', protocol: 'tcp' }, value: 1 }],
    secretCounts: () => [{ labels: { form: 'bearer' }, value: 1 }],
    countPublished: async () => 0,
  });
  measureSandboxes(metrics, {
    source: manager.metricsSource,
    top: 5,
    readCapacity: async () => ({ memoryTotalBytes: 4, memoryAvailableBytes: 3, diskFreeBytes: 2 }),
  });
  return metrics;
}

t.test('Prometheus scrapes with a key, and stores the values of the daemon', async (t) => {
  const metrics = await openMetrics(t);
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  const { port } = await serve(t, { metrics, authenticator: keyring.authenticator });
  const dir = await mkdtemp(join(tmpdir(), 'prometheus-'));
  const config = {
    scrape_configs: [
      {
        job_name: 'sandboxd',
        scrape_interval: '1s',
        scrape_timeout: '1s',
        authorization: { credentials: key },
        static_configs: [{ targets: [`127.0.0.1:${port}`] }],
      },
    ],
    rule_files: [join(DOCS, 'alerts.yml')],
  };
  // JSON is YAML.
  await writeFile(join(dir, 'prometheus.yml'), JSON.stringify(config));
  const own = await freePort();
  const child = spawn(
    'prometheus',
    [
      `--config.file=${dir}/prometheus.yml`,
      `--storage.tsdb.path=${dir}/data`,
      `--web.listen-address=127.0.0.1:${own}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let said = '';
  child.stderr.on('data', (bytes) => {
    said += bytes;
  });
  t.teardown(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    await rm(dir, { recursive: true });
  });
  const query = async (
    text: string,
  ): Promise<{ metric: Record<string, string>; value: [number, string] }[]> => {
    const answer = await fetch(`http://127.0.0.1:${own}/api/v1/query?query=${encodeURIComponent(text)}`);
    const { data } = (await answer.json()) as { data: { result: [] } };
    return data.result;
  };
  const deadline = performance.now() + scaled(60_000);
  const found = async (text: string): Promise<string | undefined> => {
    for (;;) {
      const [first] = await query(text).catch(() => []);
      if (first !== undefined) return first.value[1];
      if (performance.now() > deadline) throw new Error(`no ${text} in Prometheus:\n${said.slice(-2000)}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  t.equal(await found('up{job="sandboxd"} == 1'), '1');
  t.equal(await found('sandboxd_sandboxes{state="running"}'), '1');
  t.equal(await found('sandboxd_build_info'), '1');
  t.ok(Number(await found('sandboxd_requests_total{operation="readMetrics",status="200"}')) >= 1);
  const kinds = (await (
    await fetch(`http://127.0.0.1:${own}/api/v1/targets/metadata?metric=sandboxd_requests`)
  ).json()) as { data: { type: string }[] };
  t.equal(kinds.data[0]?.type, 'counter', 'it knows it as the counter that OpenMetrics says it is');
});

t.test('the alerts make sense, fire when they should, and only then', async (t) => {
  await run('promtool', ['check', 'rules', join(DOCS, 'alerts.yml')]);
  const dir = t.testdir();
  const series = (name: string, values: string) => ({ series: name, values });
  const tests = {
    rule_files: [join(DOCS, 'alerts.yml')],
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: [
          series('up{job="sandboxd",instance="a"}', '0x10'),
          series('up{job="sandboxd",instance="b"}', '1x10'),
          series('sandboxd_data_free_bytes{instance="a"}', '1000000000x20'),
          series('sandboxd_data_free_bytes{instance="b"}', '90000000000x20'),
          series('sandboxd_requests_total{instance="a",operation="exec",status="500"}', '0+10x20'),
          series('sandboxd_requests_total{instance="a",operation="exec",status="200"}', '0+10x20'),
          series('sandboxd_requests_total{instance="b",operation="exec",status="503"}', '0+10x20'),
          series('sandboxd_requests_total{instance="b",operation="exec",status="200"}', '0+10x20'),
        ],
        alert_rule_test: [
          fires('SandboxdDown', 'a', 'sandboxd on a does not answer', {
            job: 'sandboxd',
            severity: 'critical',
          }),
          fires('SandboxdDiskFills', 'a', '953.7MiB are free in the data directory of a', {
            severity: 'warning',
          }),
          fires('SandboxdRequestsFail', 'a', '166.7m requests a second fail on a', { severity: 'warning' }),
        ],
      },
    ],
  };
  await writeFile(join(dir, 'tests.yml'), JSON.stringify(tests));
  await run('promtool', ['test', 'rules', join(dir, 'tests.yml')]).catch(
    (error: { stdout: string; stderr: string }) => t.fail(`${error.stdout}${error.stderr}`),
  );
});

t.test('alerts and dashboard ask for metrics that there are, and each alert is explained', async (t) => {
  const text = await (await openMetrics(t)).render();
  const families = [...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)].flatMap(([, name = '', kind]) =>
    kind === 'counter'
      ? [`${name}_total`]
      : kind === 'histogram'
        ? [`${name}_bucket`, `${name}_count`, `${name}_sum`]
        : [name],
  );
  const rules = await readFile(join(DOCS, 'alerts.yml'), 'utf8');
  const dashboard = JSON.parse(await readFile(join(DOCS, 'dashboard.json'), 'utf8'));
  const queries = dashboard.panels.flatMap((panel: { targets: { expr: string }[] }) =>
    panel.targets.map(({ expr }) => expr),
  );
  const asked = new Set([rules, ...queries].join('\n').match(/\b(?:sandboxd_|process_)\w+/g));
  t.ok(asked.size >= 25);
  for (const name of asked) t.ok(families.includes(name), name);
  const runBook = await readFile(join(DOCS, 'operate.md'), 'utf8');
  for (const [, alert = ''] of rules.matchAll(/alert: (\w+)/g))
    t.ok(runBook.includes(`| \`${alert}\` |`), alert);
  const page = await readFile(join(DOCS, 'metrics.md'), 'utf8');
  for (const [, name = ''] of text.matchAll(/^# TYPE (\S+)/gm))
    t.ok(page.includes(`${name}`), `docs name ${name}`);
  const { length: panels } = dashboard.panels;
  t.equal(new Set(dashboard.panels.map(({ id }: { id: number }) => id)).size, panels);
  const rulesOfDashboard = {
    groups: [
      {
        name: 'x',
        rules: queries.map((expr: string, at: number) => ({ record: `x:${at}`, expr })),
      },
    ],
  };
  const dir = t.testdir({ 'dashboard.yml': JSON.stringify(rulesOfDashboard) });
  await t.resolves(run('promtool', ['check', 'rules', join(dir, 'dashboard.yml')]));
});

function fires(name: string, instance: string, summary: string, labels: Record<string, string>) {
  return {
    eval_time: '10m',
    alertname: name,
    exp_alerts: [{ exp_labels: { instance, ...labels }, exp_annotations: { summary } }],
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
