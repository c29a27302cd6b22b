/** A service of AWS that a server stands in for. */
export type Service = 'sqs' | 'dynamodb';

/** A server that others wrote, running. */
export interface Peer {
  readonly name: string;
  readonly endpoint: string;
  readonly services: readonly Service[];
}

/** How a server is started: without a shell, bound to 127.0.0.1. */
interface StartCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** A server that others wrote, as this run installs and starts it. */
export interface PeerServer {
  readonly name: string;
  readonly services: readonly Service[];
  /** Answers 200 once it can be used. */
  readonly healthPath: string;
  /** Puts the server into `cache` unless it is there, and gives its folder. Rejects with a {@link MissingServer} that says what to install. */
  install(cache: string, signal: AbortSignal): Promise<string>;
  /** `scratch` is a folder for what it wants to write. */
  command(folder: string, port: number, scratch: string): StartCommand;
}

/** A server cannot be had: the message says what to install. */
export class MissingServer extends Error {
  override readonly name = 'MissingServer';

  constructor(server: string, remedy: string, cause?: unknown) {
    super(`${server} cannot be started. ${remedy}`, { cause });
  }
}
