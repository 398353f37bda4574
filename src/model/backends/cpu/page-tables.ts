/** Where each layer's pages lie in the graph inputs, which hold those of several layers each. */
import type { Architecture } from '../../architecture.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import { cacheInputs, FIRST_PAGES, LAYERS_PER_INPUT } from './page-names.js';

/** Adds the inputs that hold the pages of all layers; `declare` adds those of one set of names. */
export function declarePages(
  g: GraphBuilder,
  { layers }: Architecture,
  declare: (names: ReturnType<typeof cacheInputs>) => void,
): void {
  g.input(FIRST_PAGES, 'int32', [layers.length]);
  for (let layer = 0; layer < layers.length; layer += LAYERS_PER_INPUT) declare(cacheInputs(layer));
}

/** Rows of its inputs that hold pages i32 [P] of a layer. */
export function pagesOfLayer(g: GraphBuilder, layer: number, pages: Value): Value {
  const first = g.node('Gather', [FIRST_PAGES, g.int64([layer])], { axis: 0, name: 'first_page' });
  return g.node('Add', [first, pages], { name: 'pages_of_layer' });
}

/** The same for tables of pages [V, ...]: [layers, V, ...]. `dimensions` counts those of a table. */
export function pagesOfLayers(g: GraphBuilder, tables: Value, dimensions: number): Value {
  const shape = g.int64([-1, ...Array<number>(dimensions).fill(1)]);
  const first = g.node('Reshape', [FIRST_PAGES, shape], { name: 'first_pages_of_layers' });
  return g.node('Add', [first, tables], { name: 'pages_of_layers' });
}

/** Tables [layers, V, ...rest] as one [V, ...rest] for each layer, in one node. */
export function splitLayers(g: GraphBuilder, layers: number, tables: Value): Value[] {
  const rest = g.node('Shape', [tables], { start: 2, name: 'table_shape' });
  const shape = g.node('Concat', [g.int64([-1]), rest], { axis: 0, name: 'tables_shape' });
  const rows = g.node('Reshape', [tables, shape], { name: 'table_rows' });
  return g.nodes('Split', [rows], layers, { axis: 0, num_outputs: layers, name: 'table_of_layer' });
}
