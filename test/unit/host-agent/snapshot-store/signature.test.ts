// The examples that Amazon publishes with their signatures.
import t from 'tap';
import { signRequest } from '../../../../host-agent/src/snapshot-store/s3/signature.ts';

const CREDENTIALS = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};
const AT = new Date('2013-05-24T00:00:00Z');
const host = 'examplebucket.s3.amazonaws.com';

const EXAMPLES = [
  [
    { method: 'GET', path: '/test.txt', headers: { range: 'bytes=0-9' } },
    'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  ],
  [
    {
      method: 'PUT',
      path: '/test%24file.text',
      headers: { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
      body: Buffer.from('Welcome to Amazon S3.'),
    },
    '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  ],
  [
    { method: 'GET', path: '/', query: { lifecycle: '' } },
    'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  ],
  [
    { method: 'GET', path: '/', query: { prefix: 'J', 'max-keys': '2' } },
    '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  ],
] as const;

for (const [request, signature] of EXAMPLES)
  t.test(`${request.method} ${request.path}`, async (t) => {
    const { authorization } = signRequest({ host, ...request }, CREDENTIALS, 'us-east-1', AT);
    t.match(authorization, new RegExp(`Signature=${signature}$`));
  });

t.test('a token of temporary credentials is signed', async (t) => {
  const headers = signRequest(
    { method: 'GET', host, path: '/' },
    { ...CREDENTIALS, sessionToken: 'token' },
    'us-east-1',
    AT,
  );
  t.equal(headers['x-amz-security-token'], 'token');
  t.match(headers.authorization, /SignedHeaders=[^,]*;x-amz-security-token,/);
});
