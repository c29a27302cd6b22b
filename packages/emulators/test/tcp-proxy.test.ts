import { connect, createServer, type Socket } from 'node:net';
import { tcpProxy, type TcpProxy } from '@leasehold/emulators';
import { expect, test } from 'vitest';
import { closing, until } from './started.ts';

/** A server that says everything back in capitals. */
async function shouting(): Promise<{ readonly proxy: TcpProxy; readonly heard: () => string }> {
  let heard = '';
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      heard += chunk.toString();
      socket.write(chunk.toString().toUpperCase());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new Error('not listening');
  const proxy = closing(await tcpProxy(address.port));
  closing({ close: () => server.close() });
  return { proxy, heard: () => heard };
}

interface Client {
  readonly socket: Socket;
  readonly got: () => string;
  readonly ended: () => boolean;
}

async function client(proxy: TcpProxy): Promise<Client> {
  const socket = connect(proxy.port, '127.0.0.1');
  let got = '';
  let ended = false;
  socket.on('data', (chunk: Buffer) => (got += chunk.toString()));
  socket.on('error', () => undefined);
  socket.on('close', () => (ended = true));
  closing({ close: () => socket.destroy() });
  await until(() => !socket.connecting);
  return { socket, got: () => got, ended: () => ended };
}

test('bytes pass in both directions and in order, whatever the delay is', async () => {
  const { proxy } = await shouting();
  const { socket, got } = await client(proxy);
  let said = '';
  for (let word = 0; word < 50; word++) {
    proxy.delay(word % 5 === 0 ? 8 : 0);
    const text = `word-${word} `;
    said += text;
    socket.write(text);
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  await until(() => got().length === said.length);
  expect(got()).toBe(said.toUpperCase());
});

test('large data passes, and the end of it', async () => {
  const { proxy, heard } = await shouting();
  const { socket, got, ended } = await client(proxy);
  socket.write('a'.repeat(9_000_000));
  await until(() => got().length === 9_000_000);
  expect(heard().length).toBe(9_000_000);
  socket.end();
  await until(ended);
  await until(() => proxy.connections === 0);
});

test('a cut ends connections and accepts none until it is mended', async () => {
  const { proxy } = await shouting();
  const { ended } = await client(proxy);
  await until(() => proxy.connections === 1);
  proxy.cut();
  await until(ended);
  const refused = await client(proxy);
  await until(refused.ended);
  expect(proxy.connections).toBe(0);
  proxy.restore();
  const again = await client(proxy);
  again.socket.write('hello');
  await until(() => again.got() === 'HELLO');
});

test('a silent cut holds back everything, the end of connections too, and lets it pass afterwards', async () => {
  const { proxy, heard } = await shouting();
  const early = await client(proxy);
  const leaving = await client(proxy);
  early.socket.write('one ');
  await until(() => early.got() === 'ONE ');
  proxy.cut('silent');
  early.socket.write('two ');
  leaving.socket.end();
  const late = await client(proxy);
  late.socket.write('three ');
  // The proxy has read all of it.
  await until(() => proxy.connections === 3);
  for (let turn = 0; turn < 20; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
  expect([heard(), early.got(), late.got(), leaving.ended()]).toEqual(['one ', 'ONE ', '', false]);
  proxy.restore();
  await until(() => early.got() === 'ONE TWO ' && late.got() === 'THREE ' && leaving.ended());
});

test('dropped connections end, new ones are accepted at once', async () => {
  const { proxy } = await shouting();
  const before = await client(proxy);
  await until(() => proxy.connections === 1);
  proxy.dropConnections();
  await until(before.ended);
  const next = await client(proxy);
  next.socket.write('hi');
  await until(() => next.got() === 'HI');
});

test('closing ends what is delayed or held back', async () => {
  const { proxy } = await shouting();
  const { socket, ended } = await client(proxy);
  proxy.delay(3_600_000);
  socket.write('never');
  await until(() => proxy.connections === 1);
  await proxy.close();
  await until(ended);
});
