// Settings of the ingress, which serves URLs of ports of sandboxes.
import { hostName, integer, listenAddress, path, toggle } from './values.ts';

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
