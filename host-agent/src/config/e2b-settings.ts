// Settings of the front for E2B's SDKs.
import { hostName, listenAddress } from './values.ts';

export const E2B_SETTINGS = {
  e2b_listen: listenAddress({
    help: 'address for clients of E2B (their SDKs, unmodified): TCP or a Unix socket; default: none',
  }),
  e2b_domain: hostName({
    fallback: { at: { host: 'localhost', port: undefined } },
    help: 'domain of the host names of sandboxes that E2B clients get, such as https://box.example; its wildcard name must lead to e2b_listen',
  }),
};
