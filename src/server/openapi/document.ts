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

/** The operations that there are with these parts. */
export function listedOperations({ streams, metrics }: Pick<RouteDeps, 'streams' | 'metrics'>): Operation[] {
  const listed = operations.filter(({ id }) => id !== 'metrics' || metrics !== undefined);
  return streams ? [...listed, resumeOperation] : listed;
}

export function openApiDocument(deps: RouteDeps): object {
  const { model, keys } = deps;
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of listedOperations(deps)) {
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.method]: describe(operation, model.id, keys !== undefined),
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
      schemas: { Error: schemaOf(errorAnswer, model.id, 'output') },
      ...(keys && { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } }),
    },
  };
}

function describe({ id, path, summary, body, open, ...rest }: Operation, model: string, keys: boolean): object {
  const closed = keys && open !== true;
  const refusals = closed ? [...rest.refusals, 401] : rest.refusals;
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
      requestBody: { required: true, content: { 'application/json': { schema: schemaOf(body, model, 'input') } } },
    }),
    responses: {
      200: { description: 'The answer.', content: answerContent(rest, model) },
      ...Object.fromEntries(refusals.toSorted().map((status) => [status, refusal(status, rest.answer, open)])),
    },
  };
}

function answerContent({ answer, streams }: Pick<Operation, 'answer' | 'streams'>, model: string): object {
  const text = { schema: { type: 'string' } };
  return {
    ...(answer !== 'text' && { 'application/json': { schema: schemaOf(answer, model, 'output') } }),
    ...(answer === 'text' && !streams && { 'text/plain': text }),
    ...(streams && { 'text/event-stream': text }),
  };
}

function refusal(status: number, answer: Operation['answer'], open: boolean | undefined): object {
  // What is not well has the same details as what is.
  const health = status === 503 && open && answer !== 'text';
  const schema = health ? schemaOf(answer, '', 'output') : { $ref: '#/components/schemas/Error' };
  return { description: meanings[status], content: { 'application/json': { schema } } };
}

/** JSON Schema of a body or an answer; a body's model can only be the one that is served. */
function schemaOf(schema: z.ZodType, model: string, io: 'input' | 'output'): object {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  if (io === 'input' && json.properties?.['model'] !== undefined) {
    json.properties['model'] = { anyOf: [{ const: model }, { type: 'null' }] };
  }
  return json;
}
