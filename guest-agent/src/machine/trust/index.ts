// The authority of inspected TLS that the guest trusts at present, and the variables that lead programs to it.
import { AgentError } from '@sandboxd/proto';
import { logError } from '../../lib/log.ts';
import { type Authority, type Installed, installAuthority } from './install.ts';
import { rehearse } from './rehearsal.ts';

/** Programs use this file instead of what they have, so it is never the authority alone. */
const BUNDLE_VARIABLES = [
  // OpenSSL, Python, Go, Ruby, Rust's native certificates, uv
  'SSL_CERT_FILE',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  // Python's requests, pip, and what is made with requests
  'REQUESTS_CA_BUNDLE',
  'PIP_CERT',
  'AWS_CA_BUNDLE',
  'CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE',
  'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
  'CARGO_HTTP_CAINFO',
  'NIX_SSL_CERT_FILE',
  'HEX_CACERTS_PATH',
];
/** Programs add this file to what they have. */
const OWN_VARIABLES = ['NODE_EXTRA_CA_CERTS', 'DENO_CERT'];

const MAX_CERTIFICATE_CHARS = 8192;

type State = { readonly authority: Authority; readonly installed: Installed };

/** Kept while nothing is inspected. A copy of the guest has it with the files. */
let last: State | undefined;
let variables: readonly (readonly [name: string, value: string])[] = [];

/** Of all commands and the service, unless they have them already. */
export function trustVariables(): typeof variables {
  return variables;
}

/** Throws AgentError for a field that is out of range. */
export function checkTrust({ certificate, subjectHash }: Authority): void {
  if (certificate === '') return;
  const isOne = /^-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+\n-----END CERTIFICATE-----\n$/.test(
    certificate,
  );
  if (!isOne || certificate.length > MAX_CERTIFICATE_CHARS)
    throw new AgentError('invalid', 'the authority is not one certificate in PEM');
  if (!/^[0-9a-f]{8}$/.test(subjectHash))
    throw new AgentError('invalid', `${JSON.stringify(subjectHash)} is not the hash of a subject`);
}

type Options = {
  /** The files may have been changed since. */
  readonly isThorough: boolean;
  /** Of the file system, for tests. */
  readonly root?: string;
};

/** Returns what it could not do. Throws AgentError if programs cannot be led to the authority at all. */
export function applyTrust(trust: Authority | undefined, options: Options): { problems: string[] } {
  if (trust === undefined || trust.certificate === '') {
    variables = [];
    return { problems: [] };
  }
  checkTrust(trust);
  const isLast = last?.authority.certificate === trust.certificate && !options.isThorough;
  const state = isLast && last !== undefined ? last : install(trust, options.root);
  last = state;
  const { bundlePath, ownPath, problems } = state.installed;
  variables = [
    ...BUNDLE_VARIABLES.map((name) => [name, bundlePath] as const),
    ...OWN_VARIABLES.map((name) => [name, ownPath] as const),
  ];
  return { problems: isLast ? [] : [...problems] };
}

/**
 * Runs what `applyTrust` will in a copy of this guest. Trusts nothing, and does nothing where an authority is trusted.
 */
export function rehearseTrust(root?: string): void {
  if (last !== undefined) return;
  try {
    rehearse((authority, scratch) => applyTrust(authority, { isThorough: true, root: scratch }), root);
  } catch (error) {
    logError('authority of inspected TLS', error);
  } finally {
    last = undefined;
    variables = [];
  }
}

function install({ certificate, subjectHash }: Authority, root: string | undefined): State {
  const authority = { certificate, subjectHash };
  try {
    const installed = installAuthority(authority, root);
    for (const problem of installed.problems) logError('authority of inspected TLS', problem);
    return { authority, installed };
  } catch (error) {
    logError('authority of inspected TLS', error);
    const { message } = error as Error;
    throw new AgentError('internal', `cannot add the authority of inspected TLS: ${message}`);
  }
}
