// A request for a certificate (PKCS#10, RFC 2986) of a client of the API server, and how it is asked to be signed.
import { createHash, createPublicKey, type KeyObject, sign } from 'node:crypto';
import { z } from 'zod';
import { bits, encode, integer, oid, sequence, set, utf8 } from '../../lib/der.ts';
import { AppError } from '../../lib/errors.ts';
import { isRefusal, type KubeClient } from './client.ts';

const ECDSA_SHA256 = sequence(oid('1.2.840.10045.4.3.2'));
const COMMON_NAME = '2.5.4.3';
const ORGANIZATION = '2.5.4.10';
const PATH = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
/** Of a client that is a node. The signer refuses any subject but that of `nodeSubject`. */
const SIGNER = 'kubernetes.io/kube-apiserver-client-kubelet';
const USAGES = ['digital signature', 'client auth'];
const NAME_CHARS = 32;

export type Subject = { readonly commonName: string; readonly organization: string };

export function nodeSubject(node: string): Subject {
  return { commonName: `system:node:${node}`, organization: 'system:nodes' };
}

/** In PEM. `key`: private, of an elliptic curve. */
export function makeCertificateRequest({ commonName, organization }: Subject, key: KeyObject): string {
  const part = (type: string, text: string) => set(sequence(oid(type), utf8(text)));
  const body = sequence(
    integer(Buffer.of(0)),
    sequence(part(ORGANIZATION, organization), part(COMMON_NAME, commonName)),
    toSpki(key),
    // No attributes.
    encode(0xa0),
  );
  const request = sequence(body, ECDSA_SHA256, bits(sign('sha256', body, key)));
  const lines = request.toString('base64').replace(/.{64}(?=.)/g, '$&\n');
  return `-----BEGIN CERTIFICATE REQUEST-----\n${lines}\n-----END CERTIFICATE REQUEST-----\n`;
}

function toSpki(key: KeyObject): Buffer {
  return createPublicKey(key).export({ type: 'spki', format: 'der' });
}

/** The name of the request in the API server: of its key, so that a host that starts again finds it. */
export function requestNameOf(key: KeyObject): string {
  return `sandboxd-${createHash('sha256').update(toSpki(key)).digest('hex').slice(0, NAME_CHARS)}`;
}

const signingRequest = z.object({
  spec: z.object({ request: z.string(), signerName: z.string() }),
  status: z
    .object({
      certificate: z.string().optional(),
      conditions: z
        .array(z.object({ type: z.string(), message: z.string().optional() }))
        .nullish()
        .transform((value) => value ?? []),
    })
    .prefault({}),
});

export type Signing =
  | { readonly state: 'waiting' }
  | { readonly state: 'refused'; readonly reason: string }
  /** In PEM, with those of intermediate authorities. */
  | { readonly state: 'signed'; readonly certificate: string };

/** Makes the request if there is none of that name. Rejects as requests do. */
export async function askForCertificate(
  client: KubeClient,
  name: string,
  pem: string,
  signal: AbortSignal,
): Promise<Signing> {
  const request = Buffer.from(pem).toString('base64');
  const found = await client
    .request({ method: 'GET', path: `${PATH}/${name}`, signal })
    .catch(async (error: unknown) => {
      if (!isRefusal(error, 404)) throw error;
      const spec = { request, signerName: SIGNER, usages: USAGES };
      const metadata = { name };
      const body = {
        apiVersion: 'certificates.k8s.io/v1',
        kind: 'CertificateSigningRequest',
        metadata,
        spec,
      };
      return await client.request({ method: 'POST', path: PATH, body, signal });
    });
  const { data } = signingRequest.safeParse(found);
  if (data === undefined)
    throw new AppError('upstream', 'the API server answered with something that is not a request');
  const { spec, status } = data;
  if (spec.request !== request || spec.signerName !== SIGNER)
    return { state: 'refused', reason: `there is another request ${name}` };
  const refusal = status.conditions.find(({ type }) => type === 'Denied' || type === 'Failed');
  if (refusal !== undefined)
    return { state: 'refused', reason: `${refusal.type}: ${(refusal.message ?? '').slice(0, 300)}` };
  if (!status.certificate) return { state: 'waiting' };
  return { state: 'signed', certificate: Buffer.from(status.certificate, 'base64').toString('latin1') };
}
