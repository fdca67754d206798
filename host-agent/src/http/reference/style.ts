// The style of the page, light or dark by the reader's preference.
export const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; display: flex; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; flex: 0 0 13rem; padding: 1rem; box-sizing: border-box; border-right: 1px solid var(--line); }
nav ul { margin: 0 0 .6rem; padding-left: 1rem; list-style: none; font-size: 13px; }
main { padding: 1rem 2rem; max-width: 62rem; min-width: 0; }
section { border-top: 1px solid var(--line); padding: .4rem 0 1rem; }
h3 b { font: bold 13px ui-monospace, monospace; padding: .1rem .4rem; border-radius: 3px; color: #fff; background: #467; }
h3 b.post { background: #375; } h3 b.delete { background: #933; } h3 b.put { background: #963; }
table { border-collapse: collapse; margin: .5rem 0; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--soft); font-size: 14px; }
code, pre { font: 13px/1.4 ui-monospace, monospace; } pre { background: var(--soft); padding: .6rem; overflow: auto; }
.notes { opacity: .7; } a { color: inherit; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; } }
`;
