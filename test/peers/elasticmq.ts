import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run, tail } from './commands.ts';
import { installOnce } from './install-once.ts';
import { MissingServer, type PeerServer } from './peer-server.ts';

const POM = join(import.meta.dirname, 'elasticmq', 'pom.xml');
const REMEDY =
  'Install Java 17 or later and Maven (Debian: apt-get install openjdk-17-jre-headless maven) and have them on the PATH.';

/** https://github.com/softwaremill/elasticmq */
export const elasticmq: PeerServer = {
  name: 'elasticmq',
  services: ['sqs'],
  healthPath: '/health',
  async install(cache, signal) {
    const java = await run('java', ['-version'], signal);
    const version = Number(/version "(\d+)/.exec(java.output)?.[1]);
    if (!(version >= 17)) throw new MissingServer('elasticmq', REMEDY);
    return installOnce(cache, 'elasticmq', await readFile(POM, 'utf8'), async (folder) => {
      const copy = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${folder}`];
      const ran = await run('mvn', ['--quiet', '--batch-mode', '--file', POM, ...copy], signal);
      if (ran.code === undefined) throw new MissingServer('elasticmq', REMEDY);
      if (ran.code !== 0) {
        const needs = 'Maven could not fetch it: it needs a repository that it can reach.';
        throw new MissingServer('elasticmq', `${needs} ${tail(ran)}`);
      }
    });
  },
  command: (folder, port) => {
    const settings = {
      'node-address.host': '127.0.0.1',
      'node-address.port': port,
      'rest-sqs.bind-hostname': '127.0.0.1',
      'rest-sqs.bind-port': port,
      'rest-sqs.sqs-limits': 'strict',
      'rest-stats.enabled': false,
    };
    return {
      file: 'java',
      args: [
        ...['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'],
        ...Object.entries(settings).map(([name, value]) => `-D${name}=${value}`),
        ...['-cp', join(folder, '*'), 'org.elasticmq.server.Main'],
      ],
    };
  },
};
