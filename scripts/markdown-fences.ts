/** A fenced block of code. */
export interface Fence {
  readonly path: string;
  /** The line of its first line of code, from 1. */
  readonly line: number;
  readonly language: string;
  /** True for a block whose info string says `continued`: it goes on where the block before it ended. */
  readonly continued: boolean;
  readonly code: string;
}

/** The fenced blocks of a Markdown text; `firstLine` is the line of the file on which the text starts. */
export function fences(path: string, markdown: string, firstLine = 1): Fence[] {
  const found: Fence[] = [];
  let open: { mark: string; indent: number; info: string; line: number; code: string[] } | undefined;
  for (const [index, line] of markdown.split('\n').entries()) {
    const [, indent = '', mark = '', info = ''] = /^(\s*)(`{3,}|~{3,})(.*)$/.exec(line) ?? [];
    if (!open) {
      if (mark) open = { mark, indent: indent.length, info: info.trim(), line: firstLine + index + 1, code: [] };
    } else if (mark.startsWith(open.mark) && info.trim() === '') {
      const [language = '', ...flags] = open.info.split(/\s+/);
      const code = open.code.join('\n');
      found.push({ path, line: open.line, language, continued: flags.includes('continued'), code });
      open = undefined;
    } else {
      open.code.push(line.slice(Math.min(open.indent, line.length - line.trimStart().length)));
    }
  }
  if (open) throw new Error(`${path}:${open.line} opens a fence that never closes`);
  return found;
}
