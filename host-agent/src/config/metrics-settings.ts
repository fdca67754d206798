// Settings of metrics.
import { integer, labelKeys, listenAddress } from './values.ts';

export const METRICS_SETTINGS = {
  metrics_listen: listenAddress({
    help: 'additional address that serves only GET /metrics',
  }),
  metrics_top_sandboxes: integer(0, 1000, {
    fallback: 20,
    help: 'number of sandboxes with their own metrics, those with the highest usage; the others are aggregated',
  }),
  metrics_label_keys: labelKeys({
    fallback: [],
    help: 'labels of sandboxes in metrics, by key, such as team,app; the most frequent values have series of their own',
  }),
};
