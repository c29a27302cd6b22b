import type { FaultProxy } from './fault-proxy.ts';
import { HttpFaultProxy, type ServiceRules } from './http-fault-proxy.ts';
import { OPERATIONS } from './operations.ts';
import { startServerThread } from './server-thread.ts';
import type { EmulatorTime } from './timetable.ts';

/** How to start an emulator. */
export interface EmulatorOptions {
  /** Of the endpoint, on 127.0.0.1; default a free one. */
  readonly port?: number;
  /**
   * Manual time: the server's clock and timers go by it, and so do delays of faults and the `Date` of answers. The server learns of it
   * with every request and with `settle`. Without it, the machine's clock.
   */
  readonly time?: EmulatorTime;
}

/** A server of a cloud service, in a thread of this process, behind a fault proxy. Everything is kept in memory. */
export interface Emulator {
  /** `http://127.0.0.1:port` of the fault proxy: what clients use. */
  readonly endpoint: string;
  readonly region: 'us-east-1';
  /** Nothing checks them. */
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly faults: FaultProxy;
  /**
   * Resolves when the server goes by the present time, what was due has happened, and every request is answered but the `waiting` ones.
   * Rejects when the server has failed.
   */
  settle(): Promise<void>;
  /** Requests that wait for time to pass: polls parked at the server (one whose client has gone until it ends), and calls that a fault holds. */
  readonly waiting: number;
  /** Ends server, proxy and every connection. What is still waiting gets no answer. */
  close(): Promise<void>;
}

/** Everything that the emulators have in common. */
export async function startEmulator(
  name: 'sqs' | 'dynamodb',
  options: EmulatorOptions,
  rules?: (endpoint: string) => ServiceRules,
): Promise<{ readonly emulator: Emulator; readonly proxy: HttpFaultProxy }> {
  const thread = await startServerThread(name, options.time);
  const proxy = await HttpFaultProxy.start(thread.target, {
    ...options,
    ...(rules ? { rules } : {}),
    operations: OPERATIONS[name],
    beforeSend: () => thread.tell(),
  }).catch(async (error: unknown) => {
    await thread.close();
    throw error;
  });
  let closing: Promise<void> | undefined;
  const settle = async (): Promise<void> => {
    for (;;) {
      await thread.sync();
      proxy.timetable.runDue();
      const { activity, busy } = proxy;
      await thread.sync();
      // The thread had handled all it got when it answered, and nothing came or went since: who is not parked has an answer.
      if (proxy.activity === activity && busy === thread.parked) return;
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  };
  const emulator: Emulator = {
    endpoint: proxy.endpoint,
    region: 'us-east-1',
    credentials: { accessKeyId: 'emulator', secretAccessKey: 'emulator' },
    faults: proxy,
    settle,
    get waiting() {
      return thread.parked + proxy.held;
    },
    close: () => (closing ??= Promise.all([proxy.close(), thread.close()]).then(() => undefined)),
  };
  return { emulator, proxy };
}
