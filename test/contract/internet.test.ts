// What tests of networks stand on: from the daemon's host everything is reached that a guest must not reach.
import '../support/network/own-network.ts';
import t from 'tap';
import { openInternet } from '../support/internet/index.ts';

t.setTimeout(60_000);

t.test('every machine is there, under each of its addresses, and sees who asks', async (t) => {
  const { machines } = await openInternet(t);
  const { host, ...others } = machines;
  const ask = async (name: string, address: string): Promise<void> => {
    const place = address.includes(':') ? `[${address}]` : address;
    const echo = (protocol: string): string => `echo ${protocol} | socat -t 1 - ${protocol}:${place}:7`;
    const said = await host.sh(`curl -s -m 20 http://${place}/; echo; ${echo('TCP')}; ${echo('UDP')}`);
    const from = address.includes(':') ? '[2a02:4780:0010:0000:0000:0000:0000:0010]' : host.address;
    t.same(said.trim().split('\n'), [name, from, 'TCP', from, 'UDP'], address);
  };
  await Promise.all(
    Object.values(others).flatMap(({ name, addresses }) => addresses.map((address) => ask(name, address))),
  );
});

t.test('the host is reached from a neighbour', async (t) => {
  const { machines } = await openInternet(t);
  const { host, neighbour } = machines;
  host.start('busybox', 'httpd', '-f', '-p', '[::]:8080', '-h', '/usr/share/common-licenses');
  await host.listening('tcp', 8080);
  for (const address of ['45.33.10.10', '45.33.11.10', '[2a02:4780:10::10]'])
    t.match(await neighbour.run('curl', '-s', '-m', '20', `http://${address}:8080/GPL-3`), /GNU GENERAL/);
});

t.test('names are answered as the test says, and asked for in its sight', async (t) => {
  const { machines, names } = await openInternet(t);
  const ask = (name: string, type = 'a') =>
    machines.host.sh(`busybox nslookup -type=${type} ${name} ${names.address} || true`);
  await names.serve(['host-record=web.test,93.184.216.34,60', 'cname=alias.test,web.test']);
  t.match(await ask('alias.test'), /alias.test\s+canonical name = web.test(.|\n)*Address: 93\.184\.216\.34/);
  t.match(await ask('other.test'), /NXDOMAIN/);
  await names.serve(['host-record=web.test,10.20.0.5,1', 'txt-record=web.test,secret']);
  t.match(await ask('web.test'), /Address: 10\.20\.0\.5/);
  t.match(await ask('web.test', 'txt'), /secret/);
  t.same(await names.questions(), ['A alias.test', 'A other.test', 'A web.test', 'TXT web.test']);
});
