/** The OpenAPI document, made of the schemas that validate requests. */
import { z } from 'zod';
import { version } from '../../version.js';
import type { RouteDeps } from '../context.js';
import { errorAnswer } from './answers.js';
import { type Operation, operations, resumeOperation } from './operations.js';

const meanings: Readonly<Record<number, string>> = {
  400: 'The request is wrong; the answer names the field.',
  401: 'The API key is missing or wrong.',
  404: 'There is no such model, request or stream.',
  405: 'The path knows other methods.',
  413: 'The body is too large.',
  429: 'Too much at once; try again after the time in Retry-After.',
  500: 'The server failed.',
  503: 'The server is loading, draining or overloaded; try again after the time in Retry-After.',
};

/** What the model says about requests. */
interface Known {
  readonly model: string;
  readonly vocabSize: number;
}

/** The operations that there are with these parts. */
export function listedOperations({ streams, metrics }: Pick<RouteDeps, 'streams' | 'metrics'>): Operation[] {
  const listed = operations.filter(({ id }) => id !== 'metrics' || metrics !== undefined);
  return streams ? [...listed, resumeOperation] : listed;
}

export function openApiDocument(deps: RouteDeps): object {
  const known: Known = { model: deps.model.id, vocabSize: deps.text.vocabSize };
  const { keys } = deps;
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of listedOperations(deps)) {
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.method]: describe(operation, known, keys !== undefined),
    };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'sluice',
      version,
      description: "OpenAI's API for text, with vLLM's additions. Unknown fields of a body are ignored.",
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    paths,
    components: {
      schemas: { Error: answerSchema(errorAnswer) },
      ...(keys && { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } }),
    },
  };
}

function describe(operation: Operation, known: Known, keys: boolean): object {
  const { id, path, summary, body, open, answer, streams } = operation;
  const closed = keys && open !== true;
  const refusals = closed ? [...operation.refusals, 401] : operation.refusals;
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  return {
    operationId: id,
    summary,
    ...(closed && { security: [{ key: [] }] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: { required: true, content: { 'application/json': { schema: bodySchema(body, known) } } },
    }),
    responses: {
      200: { description: 'The answer.', content: answerContent(answer, streams) },
      ...Object.fromEntries(refusals.toSorted().map((status) => [status, refusal(status, answer, open)])),
    },
  };
}

function answerContent(answer: Operation['answer'], streams: boolean | undefined): object {
  const string = { type: 'string' };
  return {
    ...(answer !== 'text' && { 'application/json': { schema: answerSchema(answer) } }),
    ...(answer === 'text' && !streams && { 'text/plain': { schema: string } }),
    ...(streams && { 'text/event-stream': { schema: eventSchema } }),
  };
}

function refusal(status: number, answer: Operation['answer'], open: boolean | undefined): object {
  // What is not well has the same details as what is.
  const health = status === 503 && open && answer !== 'text';
  const schema = health ? answerSchema(answer) : { $ref: '#/components/schemas/Error' };
  return { description: meanings[status], content: { 'application/json': { schema } } };
}

function answerSchema(schema: z.ZodType): object {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' });
  return json;
}

/** Of each event, as testers read it. */
const eventSchema = {
  type: 'object',
  properties: {
    event: { type: 'string' },
    data: { type: 'string', description: 'JSON, or [DONE] at the end.' },
    id: { type: 'string', description: 'For Last-Event-ID, where streams can be resumed.' },
  },
  required: ['data'],
};

/** JSON Schema of a body, with the ranges that the model sets: its name, and the ids of its vocabulary. */
function bodySchema(schema: z.ZodType, { model, vocabSize }: Known): object {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  if (json.properties?.['model'] !== undefined)
    json.properties['model'] = { anyOf: [{ const: model }, { type: 'null' }] };
  const bounded = (_: string, value: unknown) =>
    isTokenId(value) ? { type: 'integer', minimum: 0, maximum: vocabSize - 1 } : value;
  return JSON.parse(JSON.stringify(json), bounded) as object;
}

function isTokenId(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Reflect.get(value, 'format') === 'token-id';
}
