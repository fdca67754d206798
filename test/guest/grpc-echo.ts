// A gRPC server whose every method sends back the messages that it gets, as they come. usage: grpc-echo PORT
import { createServer, type ServerHttp2Stream } from 'node:http2';

const [, , port] = process.argv;
const server = createServer();
server.on('stream', (stream: ServerHttp2Stream) => {
  stream.on('error', () => undefined);
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', 'grpc-message': 'done' }));
  // A message keeps its frame of gRPC.
  stream.pipe(stream);
});
server.listen(Number(port), () => console.log('listening'));
