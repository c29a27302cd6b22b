import { runCli } from '../../src/program.ts';

/** What a stream is told, kept. */
function keep(stream: NodeJS.WriteStream): () => string {
  const { write } = stream;
  let kept = '';
  stream.write = (chunk: Uint8Array | string): boolean => {
    kept += String(chunk);
    return true;
  };
  return () => {
    stream.write = write;
    return kept;
  };
}

const ends: object[] = [];
for (const args of JSON.parse(process.argv[2] ?? '[]') as readonly (readonly string[])[]) {
  const [stdout, stderr] = [keep(process.stdout), keep(process.stderr)];
  const code = await runCli(args);
  ends.push({ code, stdout: stdout(), stderr: stderr() });
}
process.stdout.write(JSON.stringify(ends));
