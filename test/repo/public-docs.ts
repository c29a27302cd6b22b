import type {
  Class,
  Comment,
  Declaration,
  ModuleExportName,
  Program,
  PropertyKey as MemberKey,
  Statement,
  TSSignature,
} from 'oxc-parser';
import { lineOf, parse, type SourceFile } from './tree.ts';

interface Declared {
  readonly at: string;
  readonly documented: boolean;
  /** Methods of it that have no comment. */
  readonly silent: readonly string[];
}

interface Module {
  readonly declared: ReadonlyMap<string, Declared>;
  /** Exported name to where it comes from: a local name, or a name in another module. */
  readonly named: ReadonlyMap<string, { readonly name: string; readonly source?: string }>;
  readonly imported: ReadonlyMap<string, { readonly name: string; readonly source: string }>;
  /** Modules whose exports are all passed on. */
  readonly all: readonly string[];
}

interface Documented {
  readonly file: SourceFile;
  readonly comments: readonly Comment[];
}

function hasComment({ file, comments }: Documented, start: number): boolean {
  return comments.some(
    ({ type, value, end }) =>
      type === 'Block' && /^\*\s*\S/.test(value) && end <= start && file.text.slice(end, start).trim() === '',
  );
}

function keyName(key: MemberKey | ModuleExportName): string {
  if (key.type === 'Identifier' || key.type === 'PrivateIdentifier') return key.name;
  return key.type === 'Literal' ? String(key.value) : 'a computed member';
}

function silentSignatures(members: readonly TSSignature[], doc: Documented): string[] {
  return members.flatMap((member) => {
    const isMethod =
      member.type === 'TSMethodSignature' ||
      (member.type === 'TSPropertySignature' && member.typeAnnotation?.typeAnnotation.type === 'TSFunctionType');
    return isMethod && !hasComment(doc, member.start) ? [keyName(member.key)] : [];
  });
}

function silentMethods(node: Class, doc: Documented): string[] {
  return node.body.body.flatMap((member) => {
    if (member.type !== 'MethodDefinition' || member.kind !== 'method' || member.override) return [];
    const hidden = member.key.type === 'PrivateIdentifier' || member.accessibility === 'private';
    return hidden || hasComment(doc, member.start) ? [] : [keyName(member.key)];
  });
}

function silentMembers(node: Declaration, doc: Documented): string[] {
  if (node.type === 'TSInterfaceDeclaration') return silentSignatures(node.body.body, doc);
  if (node.type === 'TSTypeAliasDeclaration' && node.typeAnnotation.type === 'TSTypeLiteral') {
    return silentSignatures(node.typeAnnotation.members, doc);
  }
  return node.type === 'ClassDeclaration' ? silentMethods(node, doc) : [];
}

function namesOf(node: Declaration): string[] {
  if (node.type === 'VariableDeclaration') {
    return node.declarations.flatMap(({ id }) => (id.type === 'Identifier' ? [id.name] : []));
  }
  return 'id' in node && node.id?.type === 'Identifier' ? [node.id.name] : [];
}

function declarationOf(statement: Statement): Declaration | undefined {
  if (statement.type === 'ExportNamedDeclaration') return statement.declaration ?? undefined;
  switch (statement.type) {
    case 'VariableDeclaration':
    case 'FunctionDeclaration':
    case 'ClassDeclaration':
    case 'TSInterfaceDeclaration':
    case 'TSTypeAliasDeclaration':
      return statement;
    default:
      return undefined;
  }
}

function analyse(file: SourceFile): Module {
  const { program, comments }: { program: Program; comments: Comment[] } = parse(file);
  const doc = { file, comments };
  const declared = new Map<string, Declared>();
  const named = new Map<string, { name: string; source?: string }>();
  const imported = new Map<string, { name: string; source: string }>();
  const all: string[] = [];
  for (const statement of program.body) {
    if (statement.type === 'ImportDeclaration') {
      for (const specifier of statement.specifiers) {
        if (specifier.type !== 'ImportSpecifier') continue;
        imported.set(specifier.local.name, { name: keyName(specifier.imported), source: statement.source.value });
      }
    } else if (statement.type === 'ExportAllDeclaration') {
      all.push(statement.source.value);
    } else if (statement.type === 'ExportNamedDeclaration') {
      for (const { local, exported } of statement.specifiers) {
        const source = statement.source ? { source: statement.source.value } : {};
        named.set(keyName(exported), { name: keyName(local), ...source });
      }
    }
    const declaration = declarationOf(statement);
    if (!declaration) continue;
    for (const name of namesOf(declaration)) {
      // Of overloads, one with a comment is enough.
      const documented = hasComment(doc, statement.start) || declared.get(name)?.documented === true;
      const at = `${file.path}:${lineOf(file.text, statement.start)}`;
      declared.set(name, { at, documented, silent: silentMembers(declaration, doc) });
      if (statement.type === 'ExportNamedDeclaration') named.set(name, { name });
    }
  }
  return { declared, named, imported, all };
}

/** What a check of public documentation found. */
export interface DocsReport {
  /** Everything reachable, as `name` in order of discovery. */
  readonly exported: readonly string[];
  readonly problems: readonly string[];
}

/**
 * Follows every export of an entry file, also through `export *` and re-exports, and reports what has no TSDoc comment: the export
 * itself, methods of its interfaces and object types, public methods of its classes. What comes from another package is that package's matter.
 */
export function publicDocs(entry: string, readFile: (path: string) => string): DocsReport {
  const modules = new Map<string, Module>();
  const exported = new Set<string>();
  const problems = new Set<string>();

  const moduleAt = (path: string): Module => {
    const known = modules.get(path) ?? analyse({ path, text: readFile(path) });
    modules.set(path, known);
    return known;
  };
  const follow = (from: string, source: string): string | undefined =>
    source.startsWith('.') ? new URL(source, `file:///${from}`).pathname.slice(1) : undefined;

  const visitName = (path: string, name: string, as: string): void => {
    const { declared, imported, named, all } = moduleAt(path);
    const here = declared.get(name);
    if (here) {
      exported.add(as);
      if (!here.documented) problems.add(`${here.at} exports ${as} without a comment`);
      for (const member of here.silent) problems.add(`${here.at} exports ${as}, whose ${member}() has no comment`);
      return;
    }
    const origin = imported.get(name) ?? named.get(name);
    if (origin?.source !== undefined) {
      const target = follow(path, origin.source);
      if (target !== undefined) visitName(target, origin.name, as);
      return;
    }
    for (const source of all) {
      const target = follow(path, source);
      if (target !== undefined && namesOfModule(target).includes(name)) visitName(target, name, as);
    }
  };
  const namesOfModule = (path: string): string[] => {
    const { named, all } = moduleAt(path);
    const passedOn = all.flatMap((source) => {
      const target = follow(path, source);
      return target === undefined ? [] : namesOfModule(target);
    });
    return [...named.keys(), ...passedOn];
  };
  const visitModule = (path: string): void => {
    const { named, all } = moduleAt(path);
    for (const [as, { name, source }] of named) {
      const target = source === undefined ? path : follow(path, source);
      if (target !== undefined) visitName(target, name, as);
    }
    for (const source of all) {
      const target = follow(path, source);
      if (target !== undefined) visitModule(target);
    }
  };
  visitModule(entry);
  return { exported: [...exported], problems: [...problems] };
}
