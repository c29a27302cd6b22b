/** What one round of a side took. */
export interface Measured {
  readonly tasks: number;
  readonly wallMs: number;
  /** User and system time of the side's process. */
  readonly cpuMs: number;
}

/** One of the things compared, in a process of its own. */
export interface Side {
  /** Puts tasks into its queue; not measured. */
  fill(count: number): Promise<void>;
  /** Works them off, until each is acknowledged. */
  run(count: number): Promise<Measured>;
  close(): Promise<void>;
}

/** Where the servers are. */
export interface Servers {
  readonly sqs: Endpoint;
  readonly dynamodb: Endpoint;
}

export interface Endpoint {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** What a side is opened with. */
export interface SideOptions {
  readonly servers?: Servers;
  readonly queueUrl?: string;
  readonly table?: string;
  /** A directory of its own. */
  readonly directory: string;
  readonly concurrency: number;
}

/** Resolves once `holds`, looking every `everyMs`, or at every turn of the event loop. */
export async function until(holds: () => boolean, everyMs = 0): Promise<void> {
  while (!holds())
    await new Promise<void>((resolve) => (everyMs > 0 ? setTimeout(resolve, everyMs) : setImmediate(resolve)));
}

/** Measures `work`, which ends when `count` tasks are acknowledged. */
export async function measured(tasks: number, work: () => Promise<unknown>): Promise<Measured> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  await work();
  const wallMs = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { tasks, wallMs, cpuMs: (user + system) / 1_000 };
}
