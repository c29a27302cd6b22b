/**
 * `npm run test:docker`: the contract, in real time, on LocalStack in a container. Everything after `--` goes to vitest
 * (`npm run test:docker -- -t "field case 44"`).
 */
import { LocalstackContainer, type StartedLocalStackContainer } from '@testcontainers/localstack';
import { runContract } from '../peers/run-contract.ts';
import { runUntilStopped } from '../peers/run-until-stopped.ts';
import { pinnedImage } from './pinned-image.ts';

const MISSING =
  'test:docker needs a Docker engine, and none answers. Start one (Docker Desktop; on Debian: apt-get install docker.io, then dockerd), or let ' +
  'DOCKER_HOST name one, and run this again. npm run test:peers runs the same cases without Docker.';

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function start(image: string): Promise<StartedLocalStackContainer> {
  const environment = {
    SERVICES: 'sqs,dynamodb',
    EAGER_SERVICE_LOADING: '1',
    SQS_ENDPOINT_STRATEGY: 'path',
    DISABLE_EVENTS: '1',
  };
  try {
    return await new LocalstackContainer(image).withEnvironment(environment).start();
  } catch (error) {
    const said = messageOf(error);
    // In these words testcontainers says that no engine answers.
    const remedy = /container runtime/i.test(said)
      ? MISSING
      : `${image} did not start. docker pull ${image} says whether it can be had, docker logs of its container why it ended.`;
    throw new Error(`${remedy}\n(${said})`, { cause: error });
  }
}

async function main(signal: AbortSignal): Promise<number> {
  const image = pinnedImage('localstack');
  say(`starting ${image}`);
  const container = await start(image);
  try {
    const endpoint = container.getConnectionUri();
    say(`${image} at ${endpoint}`);
    return await runContract(
      [{ name: 'localstack', endpoint, services: ['sqs', 'dynamodb'] }],
      process.argv.slice(2),
      signal,
    );
  } finally {
    await container.stop();
  }
}

runUntilStopped(main);
