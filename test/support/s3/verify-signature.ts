// Verifies a signature of AWS Signature Version 4 as a server does: from what came over the wire, by the names that the
// client says it has signed. Nothing of it is shared with the client.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

const MAX_SKEW_MS = 15 * 60_000;

type Secret = { readonly accessKeyId: string; readonly secretAccessKey: string };

/** S3's code of the refusal; undefined: it is right. */
export function verifySignature(
  request: IncomingMessage,
  body: Buffer,
  { accessKeyId, secretAccessKey }: Secret,
  now: Date,
): string | undefined {
  const head = request.headers;
  const found =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      head.authorization ?? '',
    );
  if (found === null) return 'AccessDenied';
  const [, id = '', day = '', region = '', list = '', signature = ''] = found;
  if (id !== accessKeyId) return 'InvalidAccessKeyId';
  const stamp = String(head['x-amz-date']);
  const at = Date.parse(stamp.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (!stamp.startsWith(day) || !(Math.abs(at - now.getTime()) < MAX_SKEW_MS)) return 'RequestTimeTooSkewed';
  const names = list.split(';');
  const isSigned = (name: string) => names.includes(name);
  const mustBe = Object.keys(head).filter((name) => name === 'host' || name.startsWith('x-amz-'));
  if (!mustBe.every(isSigned)) return 'AccessDenied';
  const payload = createHash('sha256').update(body).digest('hex');
  if (head['x-amz-content-sha256'] !== payload) return 'XAmzContentSHA256Mismatch';
  const [path = '', query = ''] = (request.url ?? '').split('?');
  let canonical = `${request.method}\n${path}\n`;
  canonical += query.split('&').filter(Boolean).sort().join('&');
  canonical += '\n';
  for (const name of names) canonical += `${name}:${String(head[name]).trim()}\n`;
  canonical += `\n${list}\n${payload}`;
  let key: string | Buffer = `AWS4${secretAccessKey}`;
  for (const part of [day, region, 's3', 'aws4_request'])
    key = createHmac('sha256', key).update(part).digest();
  const digest = createHash('sha256').update(canonical).digest('hex');
  const text = `AWS4-HMAC-SHA256\n${stamp}\n${day}/${region}/s3/aws4_request\n${digest}`;
  const right = createHmac('sha256', key).update(text).digest();
  return timingSafeEqual(right, Buffer.from(signature, 'hex')) ? undefined : 'SignatureDoesNotMatch';
}
