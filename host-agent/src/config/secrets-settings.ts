// Settings of secrets.
import { choice, namedPaths, path, sourceNames } from './values.ts';

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
