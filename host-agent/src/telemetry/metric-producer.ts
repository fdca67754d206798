// The metrics of `GET /metrics` in OpenTelemetry's format, with the same names.
import type { Attributes, HrTime } from '@opentelemetry/api';
import { ValueType } from '@opentelemetry/api';
import type { InstrumentationScope } from '@opentelemetry/core';
import type { Resource } from '@opentelemetry/resources';
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  type MetricData,
  type MetricProducer,
} from '@opentelemetry/sdk-metrics';
import type { MetricObjectWithValues, MetricValue, MetricValueWithName } from 'prom-client';
import type { Metrics } from '../metrics/metrics.ts';

type Family = MetricObjectWithValues<MetricValue<string> & Partial<MetricValueWithName<string>>>;
type Series = { readonly attributes: Attributes; counts: Map<number, number>; sum: number; count: number };

const UNITS: Readonly<Record<string, string>> = { seconds: 's', bytes: 'By' };

/** All values since the process's start. */
export function toMetricProducer(
  metrics: Metrics,
  scope: InstrumentationScope,
  resource: Resource,
): MetricProducer {
  const startTime = toHrTime(performance.timeOrigin);
  return {
    collect: async () => {
      const families = (await metrics.read()) as unknown as readonly Family[];
      const span = { startTime, endTime: toHrTime(Date.now()) };
      const scopeMetrics = [{ scope, metrics: families.map((family) => toMetric(family, span)) }];
      return { resourceMetrics: { resource, scopeMetrics }, errors: [] };
    },
  };
}

type Span = { readonly startTime: HrTime; readonly endTime: HrTime };

function toMetric(family: Family, span: Span): MetricData {
  // prom-client exports this enumeration as a type only; the data contains its name as text.
  const kind = String(family.type);
  // prom-client's OpenMetrics exposition removes the suffix from the shared family, so it may be missing here.
  const name = kind === 'counter' ? `${family.name.replace(/_total$/, '')}_total` : family.name;
  const unit = UNITS[/_(seconds|bytes)(?:_total)?$/.exec(name)?.[1] ?? ''] ?? '';
  const common = {
    descriptor: { name, description: family.help, unit, valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  if (kind === 'histogram')
    return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints: toHistograms(family, span) };
  const dataPoints = family.values.map(({ labels, value }) => ({
    ...span,
    attributes: toAttributes(labels),
    value,
  }));
  return kind === 'counter'
    ? { ...common, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }
    : { ...common, dataPointType: DataPointType.GAUGE, dataPoints };
}

/** Prometheus buckets are cumulative and include one without a bound. */
function toHistograms({ name, values }: Family, span: Span): DataPoint<Histogram>[] {
  const series = new Map<string, Series>();
  for (const { metricName, labels, value } of values) {
    const { le, ...rest } = toAttributes(labels);
    const key = JSON.stringify(Object.entries(rest).sort());
    const one = series.get(key) ?? { attributes: rest, counts: new Map(), sum: 0, count: 0 };
    series.set(key, one);
    if (metricName === `${name}_sum`) one.sum = value;
    else if (metricName === `${name}_count`) one.count = value;
    else if (le !== undefined && le !== '+Inf') one.counts.set(Number(le), value);
  }
  return [...series.values()].map(({ attributes, counts, sum, count }) => {
    const boundaries = [...counts.keys()].sort((a, b) => a - b);
    const totals = [...boundaries.map((bound) => counts.get(bound) ?? 0), count];
    const buckets = { boundaries, counts: totals.map((total, at) => total - (totals[at - 1] ?? 0)) };
    return { ...span, attributes, value: { buckets, sum, count } };
  });
}

function toAttributes(labels: Partial<Record<string, string | number>>): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]));
}

function toHrTime(ms: number): HrTime {
  return [Math.trunc(ms / 1000), Math.round((ms % 1000) * 1e6)];
}
