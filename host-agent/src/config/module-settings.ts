// Settings of modules: metrics, the ingress, the front for E2B, secrets.
import {
  choice,
  hostName,
  integer,
  labelKeys,
  listenAddress,
  namedPaths,
  path,
  sourceNames,
  toggle,
} from './values.ts';

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

// Settings of the ingress, which serves URLs of ports of sandboxes.

export const INGRESS_SETTINGS = {
  ingress_listen: listenAddress({
    help: 'address of the ingress, which serves URLs of ports of sandboxes: TCP or a Unix socket; default: no ingress',
  }),
  ingress_domain: hostName({
    fallback: { at: { host: 'localhost', port: undefined } },
    help: 'domain of the URLs of ports, with scheme and port if a proxy changes them, such as https://sandboxes.example.com',
  }),
  ingress_tls_cert: path({
    help: 'TLS certificate chain of the ingress, for *.<ingress_domain> (PEM); reloaded when it changes',
  }),
  ingress_tls_key: path({ help: 'private key of that certificate (PEM)' }),
  ingress_max_connections: integer(1, 1_000_000, {
    fallback: 4096,
    help: 'maximum open connections to the ingress',
  }),
  ingress_client_rate: integer(0, 1_000_000, {
    fallback: 0,
    help: 'requests a second to the ingress from one address, on average over 10 s; 0: no limit, as behind a proxy all come from one',
  }),
  ingress_sandbox_rate: integer(0, 1_000_000, {
    fallback: 1000,
    help: 'requests a second to one sandbox through the ingress, on average over 10 s; 0: no limit',
  }),
  ingress_access_log: toggle({ help: 'log each request of the ingress' }),
};

// Settings of the front for E2B's SDKs.

export const E2B_SETTINGS = {
  e2b_listen: listenAddress({
    help: 'address for clients of E2B (their SDKs, unmodified): TCP or a Unix socket; default: none',
  }),
  e2b_domain: hostName({
    fallback: { at: { host: 'localhost', port: undefined } },
    help: 'domain of the host names of sandboxes that E2B clients get, such as https://box.example; its wildcard name must lead to e2b_listen',
  }),
};

// Settings of secrets.

export const SECRETS_SETTINGS = {
  secrets_key_file: path({
    help: 'file with the key that seals secrets in the registry, at least 32 bytes; default: the credential secrets-key of systemd, else a file in the data directory',
  }),
  secret_file: namedPaths({
    fallback: [],
    help: 'file that stored secrets can name as their source, as [tenant/]name[@host…]=path, for these hosts alone where any is given; repeatable',
  }),
  secret_command: namedPaths({
    fallback: [],
    help: 'program whose output stored secrets can name as their source, as [tenant/]name[@host…]=path; it runs without arguments, for 10 s at most; repeatable',
  }),
  secret_credential: sourceNames({
    fallback: [],
    help: 'credential of systemd that stored secrets can name as their source, as [tenant/]name[@host…]; repeatable',
  }),
  secrets_plain_http: choice(['on', 'off'], {
    fallback: 'off',
    help: 'permit secrets with plain_http in requests without TLS',
  }),
};
