// Metrics by labels: only chosen keys, and never more series than the bound, whatever values clients choose.
import t from 'tap';
import { createSettings } from '../../../../host-agent/src/config/settings.ts';
import { Metrics } from '../../../../host-agent/src/metrics/metrics.ts';
import {
  type LabelledSandbox,
  MAX_COMBINATIONS,
  measureLabels,
} from '../../../../host-agent/src/sandboxes/label-metrics.ts';
import { toMetricProducer } from '../../../../host-agent/src/telemetry/metric-producer.ts';

function measure(keys: readonly string[], sandboxes: LabelledSandbox[], top: string[] = []) {
  const metrics = new Metrics();
  measureLabels(metrics, { keys, sandboxes: () => sandboxes, top: () => top });
  const read = async () => {
    const text = await metrics.render();
    return text.split('\n').filter((line) => /^sandboxd_(?:sandboxes_by_label|vm_labels)\{/.test(line));
  };
  return { metrics, read };
}

const running = (id: string, labels: Record<string, string>) => ({ id, state: 'running', labels });

t.test('counts by state and chosen labels, and what those of single series are', async (t) => {
  const sandboxes = [
    running('a', { team: 'x', 'app.example/tier-1': 'web', secret: 'no' }),
    running('b', { team: 'x', 'app.example/tier-1': 'web' }),
    { id: 'c', state: 'paused', labels: { team: 'x' } },
    running('d', {}),
  ];
  const { read, metrics } = measure(['team', 'app.example/tier-1'], sandboxes, ['a', 'd', 'rest']);
  t.same((await read()).sort(), [
    'sandboxd_sandboxes_by_label{state="paused",label_team="x",label_app_example_tier_1=""} 1',
    'sandboxd_sandboxes_by_label{state="running",label_team="",label_app_example_tier_1=""} 1',
    'sandboxd_sandboxes_by_label{state="running",label_team="x",label_app_example_tier_1="web"} 2',
    'sandboxd_vm_labels{sandbox="a",label_team="x",label_app_example_tier_1="web"} 1',
    'sandboxd_vm_labels{sandbox="d",label_team="",label_app_example_tier_1=""} 1',
  ]);
  const collected = await toMetricProducer(metrics, { name: 'x' }, {} as never).collect();
  const [family] =
    collected.resourceMetrics.scopeMetrics[0]?.metrics.filter(
      ({ descriptor }) => descriptor.name === 'sandboxd_vm_labels',
    ) ?? [];
  t.match(family?.dataPoints[0]?.attributes, { sandbox: 'a', label_team: 'x' });
});

t.test('without keys there is nothing', async (t) => {
  const { metrics } = measure([], [running('a', { team: 'x' })], ['a']);
  t.notMatch(await metrics.render(), /label/);
});

t.test('10,000 sandboxes with values of their own hide no frequent ones, and make few series', async (t) => {
  const flood = Array.from({ length: 10_000 }, (_, at) =>
    running(`f${at}`, { team: `v${at}`, app: `w${at}` }),
  );
  const sandboxes = [...flood, running('a', { team: 'x' }), running('b', { team: 'x' })];
  const { read } = measure(['team', 'app'], sandboxes, ['a']);
  const lines = await read();
  t.equal(lines.length, MAX_COMBINATIONS + 2);
  t.ok(lines.includes('sandboxd_sandboxes_by_label{state="running",label_team="x",label_app=""} 2'));
  const total = lines
    .filter((line) => line.includes('by_label'))
    .map((line) => Number(line.split(' ').at(-1)));
  t.equal(
    total.reduce((sum, count) => sum + count),
    10_002,
    'each is counted',
  );
  t.match(lines.join('\n'), /\{state="running",label_team="_other",label_app="_other"\} 9901$/m);
  const shown = new Set(lines);
  sandboxes.reverse();
  for (let at = 0; at < 3; at++) sandboxes.push(running(`g${at}`, { team: `0${at}` }));
  const again = await read();
  t.equal(
    again.filter((line) => shown.has(line)).length,
    lines.length - 1,
    'series stay, but for the sum of others',
  );
});

t.test('names that every object has are ordinary keys and values', async (t) => {
  const { read } = measure(
    ['constructor', 'toString'],
    [running('a', {}), running('b', { constructor: 'constructor' })],
  );
  t.same((await read()).sort(), [
    'sandboxd_sandboxes_by_label{state="running",label_constructor="",label_toString=""} 1',
    'sandboxd_sandboxes_by_label{state="running",label_constructor="constructor",label_toString=""} 1',
  ]);
});

t.test('the setting takes keys of labels whose names differ in metrics', (t) => {
  const { metrics_label_keys: setting } = createSettings([]);
  const parse = (text: string) => setting.schema.safeParse(setting.fromText(text));
  t.same(parse('team, app.example/tier').data, ['team', 'app.example/tier']);
  for (const bad of ['', 'a b', 'a,', '__proto__', 'a-b,a.b', 'a,a', 'a,b,c,d,e,f,g,h,i', 'a{}'])
    t.notOk(parse(bad).success, bad);
  t.end();
});
