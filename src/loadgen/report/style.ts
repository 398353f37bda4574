/** The style sheet of the report page, light or dark as the reader's system is. */
export const STYLE = `
:root { color-scheme: light dark; --page: #fbfbfa; --card: #fff; --ink: #1d2329; --soft: #69737d; --rule: #e4e6e8;
  --p50: #7fb2d9; --p95: #2f7fb8; --p99: #123f66; --wait: #c9d3dc; --receive: #2f7fb8; --fail: #c8372d;
  --load0: #2f7fb8; --load1: #d9822b; --load2: #3a9a5c; --load3: #a64ca6; --load4: #c8372d; --load5: #6b6fc9;
  --load6: #8a7a4b; --load7: #4a9fa5; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --card: #1c2024; --ink: #e4e7ea; --soft: #98a2ac;
  --rule: #2f353b; --p50: #3b6f96; --p95: #5ba6dc; --p99: #c4e2f7; --wait: #48535d; --receive: #5ba6dc; --fail: #ef6a5f;
  --load0: #5ba6dc; --load1: #efa050; --load2: #62c084; --load3: #cf7fcf; --load4: #ef6a5f; --load5: #9498ef;
  --load6: #b8a874; --load7: #72c6cc; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 1020px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0; letter-spacing: -.01em; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } .warning { border-left: 3px solid var(--load1); padding-left: .7rem; }
.failure { border-left: 3px solid var(--fail); padding-left: .7rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .84rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .38rem; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { font-weight: 600; color: var(--soft); } th:first-child, td:first-child { text-align: left; }
.grid2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 12px; }
figure { margin: 0; padding: 8px; background: var(--card); border: 1px solid var(--rule); border-radius: 6px; }
figure + figure.wide { margin-top: 12px; } svg { display: block; width: 100%; height: auto; }
svg text { font: 11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--soft); }
svg .title { font-size: 13px; font-weight: 600; fill: var(--ink); }
.grid { stroke: var(--rule); fill: none; } .axis { stroke: var(--soft); fill: none; }
.curve { fill: none; stroke-width: 1.6; } .area { fill-opacity: .12; stroke-width: 1.4; } .bar { fill: none; }
.curve.p50 { stroke: var(--p50); } .curve.p95 { stroke: var(--p95); } .curve.p99 { stroke: var(--p99); }
circle.p50 { fill: var(--p50); } circle.p95 { fill: var(--p95); } circle.p99 { fill: var(--p99); }
i.p50 { background: var(--p50); } i.p95 { background: var(--p95); } i.p99 { background: var(--p99); }
.bar.waiting { stroke: var(--wait); } .bar.receiving { stroke: var(--receive); } .bar.failed { stroke: var(--fail); }
.bar.cancelled { stroke: var(--soft); } i.waiting { background: var(--wait); } i.receiving { background: var(--receive); }
i.failed { background: var(--fail); }
${Array.from({ length: 8 }, (_, n) => `.area.load${n} { stroke: var(--load${n}); fill: var(--load${n}); } i.load${n} { background: var(--load${n}); }`).join('\n')}
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .85rem; color: var(--soft); margin: 0 0 .6rem; }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; vertical-align: -.05em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .88rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media print { body { max-width: none; } figure { break-inside: avoid; } }
`;
