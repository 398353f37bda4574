/**
 * Chat templates run on @huggingface/jinja, the engine of @huggingface/transformers. Where it departs from Python's
 * Jinja silently, and templates in use depend on it, the interpreter here corrects it: calls to what is not defined
 * name it, strip() takes its argument, and a mapping is never glued to text as "[object Map]".
 */
import * as library from '@huggingface/jinja';

/** What is looked at of the library's syntax tree and values. */
interface Node {
  readonly type: string;
  readonly [key: string]: unknown;
}
interface Value {
  readonly type: string;
  readonly value: unknown;
}
interface Environment {
  set(name: string, value: unknown): Value;
}
interface Interpreter {
  evaluate(node: Node | undefined, environment: Environment): Value;
  run(program: Program): Value;
}
/** A parsed template. */
export type Program = Node;

// The library's declarations import without file endings, which Node's resolution does not follow.
const { Environment, Interpreter, parse, tokenize } = library as unknown as {
  readonly Environment: new () => Environment;
  readonly Interpreter: new (environment: Environment) => Interpreter;
  tokenize(source: string, options: { trim_blocks: boolean; lstrip_blocks: boolean }): unknown;
  parse(tokens: unknown): Program;
};

/** Parses with the settings of transformers: trim_blocks and lstrip_blocks. Throws SyntaxError. */
export function parseTemplate(source: string): Program {
  return parse(tokenize(source, { trim_blocks: true, lstrip_blocks: true }));
}

/** Runs a template; functions among the variables take and return plain values. Throws what the template throws. */
export function runTemplate(program: Program, variables: Readonly<Record<string, unknown>>): string {
  const environment = new Environment();
  const constants = { true: true, false: false, none: null, True: true, False: false, None: null };
  for (const [name, value] of Object.entries({ ...variables, ...constants })) {
    if (name !== 'namespace') environment.set(name, value);
  }
  return String(new PythonInterpreter(environment).run(program).value);
}

/** Stands in a syntax tree for an expression that has been evaluated already: each is evaluated once. */
const EVALUATED = 'Evaluated';

class PythonInterpreter extends Interpreter {
  override evaluate(node: Node | undefined, environment: Environment): Value {
    switch (node?.type) {
      case EVALUATED:
        return node['value'] as Value;
      case 'CallExpression':
        return this.call(node, environment);
      case 'CallStatement': {
        const call = node['call'] as Node;
        const callee = this.callable(call['callee'] as Node, environment);
        return this.library({ ...node, call: { ...call, callee } }, environment);
      }
      case 'BinaryExpression':
        return this.binary(node, environment);
      default:
        return super.evaluate(node, environment);
    }
  }

  private call(node: Node, environment: Environment): Value {
    const callee = node['callee'] as Node;
    const args = node['args'] as readonly Node[];
    if (!isStrip(callee) || args.length !== 1) {
      return this.library({ ...node, callee: this.callable(callee, environment) }, environment);
    }
    // The library strips white space whatever the argument.
    const object = this.once(callee['object'] as Node, environment);
    const argument = this.once(args[0]!, environment);
    const text = plain(object);
    const characters = plain(argument);
    if (typeof text === 'string' && typeof characters === 'string') {
      return toValue(strip(text, characters, methodName(callee)!));
    }
    const method = this.callable({ ...callee, object }, environment);
    return this.library({ ...node, callee: method, args: [argument] }, environment);
  }

  private callable(callee: Node, environment: Environment): Node {
    const evaluated = this.once(callee, environment);
    if ((evaluated['value'] as Value).type === 'FunctionValue') return evaluated;
    throw new Error(`${describe(callee)} is not defined, so it cannot be called`);
  }

  /** Python refuses text + mapping; the library would write "[object Map]", and a list without its brackets. */
  private binary(node: Node, environment: Environment): Value {
    const operator = (node['operator'] as { readonly value: string }).value;
    if (operator !== '+' && operator !== '~') return this.library(node, environment);
    const left = this.once(node['left'] as Node, environment);
    const right = this.once(node['right'] as Node, environment);
    const types = [left, right].map((side) => (side['value'] as Value).type);
    const container = types.find((type) => CONTAINERS.has(type));
    if (container !== undefined && (operator === '~' || types.includes('StringValue'))) {
      throw new TypeError(`cannot join text and ${CONTAINERS.get(container)} with "${operator}"`);
    }
    return this.library({ ...node, left, right }, environment);
  }

  private once(node: Node, environment: Environment): Node {
    return { type: EVALUATED, value: this.evaluate(node, environment) };
  }

  private library(node: Node, environment: Environment): Value {
    return super.evaluate(node, environment);
  }
}

const CONTAINERS: ReadonlyMap<string, string> = new Map([
  ['ObjectValue', 'a mapping'],
  ['ArrayValue', 'a list'],
  ['TupleValue', 'a tuple'],
]);

function plain(evaluated: Node): unknown {
  return (evaluated['value'] as Value).value;
}

function isStrip(callee: Node): boolean {
  return ['strip', 'lstrip', 'rstrip'].includes(methodName(callee) ?? '');
}

function methodName(callee: Node): string | undefined {
  if (callee.type !== 'MemberExpression' || callee['computed'] === true) return undefined;
  return (callee['property'] as Node)['value'] as string;
}

/** The name of what is called, as the template writes it. */
function describe(callee: Node): string {
  if (callee.type === 'Identifier') return String(callee['value']);
  if (callee.type !== 'MemberExpression') return '(…)';
  const object = describe(callee['object'] as Node);
  const name = methodName(callee);
  return name === undefined ? `${object}[…]` : `${object}.${name}`;
}

function strip(text: string, characters: string, method: string): string {
  const set = new Set(characters);
  const points = [...text];
  let start = 0;
  let end = points.length;
  while (method !== 'rstrip' && start < end && set.has(points[start]!)) start++;
  while (method !== 'lstrip' && end > start && set.has(points[end - 1]!)) end--;
  return points.slice(start, end).join('');
}

/** The library's value for a plain one. */
function toValue(value: unknown): Value {
  return new Environment().set('value', value);
}
