// Settings of a host that is a node of a fleet.
import { hostname } from 'node:os';
import { z } from 'zod';
import { parseIpv4Range } from '../lib/ipv4.ts';
import { bytes, choice, path, type Setting, text } from './values.ts';

const GIB = 2 ** 30;
const LABEL = /^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$/;

const podsRange: Setting<string> = {
  schema: z.string().refine((range) => parseIpv4Range(range) !== undefined),
  expected: 'a range of IPv4 addresses such as 10.244.7.0/24',
  placeholder: 'range',
  fromText: (value) => value,
  help: 'addresses of these pods, which the network routes to this host; their ports are published there',
};

export const FLEET_SETTINGS = {
  join: path({
    help: 'join the fleet of this Kubernetes cluster (a kubeconfig), whose gateways then place sandboxes here',
  }),
  join_name: text({
    fallback: hostname().toLowerCase(),
    pattern: LABEL,
    expected: 'a name of lower-case letters, digits, dots and dashes',
    placeholder: 'name',
    help: 'name of this host’s node in the fleet',
  }),
  join_url: text({
    pattern: /^https?:\/\/[^\s/?#@]+\/?$/,
    expected: 'a URL without a path, such as https://10.0.0.5:7878',
    placeholder: 'url',
    help: 'where gateways of the fleet reach the REST API; default: the address of listen',
  }),
  fleet_secret_file: path({
    help: 'file with the secret that gateways and hosts of the fleet share; needed with join',
  }),
  fleet_namespace: text({
    fallback: 'sandboxd',
    pattern: /^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/,
    expected: 'a name of lower-case letters, digits and dashes, 32 at most',
    placeholder: 'name',
    help: 'namespace of sandboxes without a tenant; a tenant’s is this name, a dash and the tenant',
  }),
  shared_images: choice(['on', 'off'], {
    fallback: 'off',
    help:
      'share images with the other hosts of the fleet through snapshot_store: policy.json of this host does not count ' +
      'for those that others pulled',
  }),
  shared_images_bytes: bytes(0, 16_384 * GIB, {
    fallback: 256 * GIB,
    help: 'limit of what shared images take in snapshot_store, of all hosts together; beyond it none is sent; 0: no limit',
  }),
  pods_key: text({
    pattern: /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$/,
    expected: 'a name of letters, digits, dots, dashes and underscores',
    placeholder: 'name',
    help:
      'run pods of the runtime class sandboxd that others make, with the rights of the key of this name, and for a ' +
      'tenant of this name, a dash and the tenant',
  }),
  pods_range: podsRange,
};

/** Settings without a default value. */
export type OptionalFleetKey = 'join' | 'join_url' | 'fleet_secret_file' | 'pods_key' | 'pods_range';
