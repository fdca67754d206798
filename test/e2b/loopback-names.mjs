// Names below the domain of the daemon under test lead to this host, as its wildcard name would.
import dns from 'node:dns';
import process from 'node:process';

const domain = `.${process.env.TEST_E2B_DOMAIN}`;
const { lookup } = dns;
dns.lookup = (name, ...rest) => lookup(name.endsWith(domain) ? '127.0.0.1' : name, ...rest);
