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
  ingress_access_log: toggle({ help: 'log each request of the ingress' }),
};
