// URLs of operators: accepted exactly as they are written, or rejected.
import t from 'tap';
import { parseWebUrl } from '../../../../host-agent/src/lib/authority.ts';

t.test('what is taken', (t) => {
  for (const url of [
    'http://127.0.0.1:9000/hook',
    'https://hooks.example/a?b=c%20d#e',
    'HTTPS://Hooks.Example',
    'http://[::1]:9000/',
    'http://user:word@hooks.example/',
    'http://a_b.example./x',
    'https://xn--bcher-kva.example/',
  ])
    t.equal(parseWebUrl(url)?.href, new URL(url).href, url);
  t.end();
});

t.test('a text that URL would change, or read as another host, is refused', (t) => {
  for (const url of [
    '',
    'x',
    'ftp://x/',
    'file:///etc/passwd',
    'http:hooks.example',
    'http:///hooks.example',
    'http://',
    'http://hooks.example/a\r\nb',
    'http://hooks.exam\r\nple/',
    'http://hooks.example\t/',
    'ht\ntp://hooks.example/',
    ' http://hooks.example/',
    'http://hooks.example/ ',
    'http://hooks.example/\u0000',
    'http://hooks.example/a b',
    'http://hooks.example/ä',
    'http://hooks.example\\@other.example/',
    'http://hooks.example/a\\b',
    'http://hooks%2eexample/',
    'http://hoo\u00adks.example/',
    'http://hooks。example/',
    'http://bücher.example/',
    'http://0x7f.1/',
    'http://2130706433/',
    'http://127.1/',
    'http://127.0.0.01/',
    'http://hooks.example:99999/',
    'http://hooks.example:x/',
  ])
    t.equal(parseWebUrl(url), undefined, JSON.stringify(url));
  t.end();
});
