// CodeMirror for a workflow file. It lives in a shadow root: there it can bring its looks under this page's policy,
// which allows no style that does not come from a file of the server.
import { html, useEffect, useRef } from "../lib.js";
import { _, language } from "../language.js";
import { Compartment, Decoration, EditorState, EditorView, HighlightStyle, MatchDecorator, ViewPlugin, bracketMatching, defaultKeymap, drawSelection, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, history, historyKeymap, indentOnInput, indentUnit, keymap, lineNumbers, lintGutter, lintKeymap, search, searchKeymap, setDiagnostics, syntaxHighlighting, tags, yaml } from "./codemirror.js";
import { spot } from "./lines.js";

const NARROW = "(max-width: 760px)";

const LOOK = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--paper)", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.65", overflow: "auto" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--faint)", borderRight: "1px solid var(--hair)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent-soft) 45%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--accent-soft)", color: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-line)" },
  ".cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent-line)" },
  ".cm-searchMatch": { backgroundColor: "var(--amber-soft)", outline: "1px solid var(--amber-line)" },
  ".cm-specialChar": { color: "var(--red)", backgroundColor: "var(--red-soft)" },
  ".cm-expression": { color: "var(--violet)", backgroundColor: "var(--violet-soft)", borderRadius: "3px" },
  ".cm-panels, .cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)", fontFamily: "var(--sans)", fontSize: "13px" },
  ".cm-panel.cm-search input, .cm-panel.cm-search button, .cm-panel.cm-search label": { fontFamily: "var(--sans)", fontSize: "13px" },
  ".cm-textfield": { backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--edge)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--sunk)", color: "var(--ink)", border: "1px solid var(--edge)" },
  ".cm-diagnostic": { color: "var(--ink)", maxWidth: "56ch" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--red)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--amber-dot)" },
  ".cm-diagnostic-info": { borderLeftColor: "var(--accent)" },
});

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" }, { tag: tags.definition(tags.propertyName), color: "var(--accent)" },
  { tag: tags.string, color: "var(--green)" }, { tag: [tags.lineComment, tags.comment], color: "var(--faint)", fontStyle: "italic" },
  { tag: [tags.keyword, tags.bool, tags.null, tags.number], color: "var(--rust)" }, { tag: [tags.meta, tags.typeName, tags.labelName], color: "var(--violet)" },
]);

/** `{{ … }}`, which YAML knows nothing of. */
const EXPRESSIONS = (() => {
  const found = new MatchDecorator({ regexp: /\{\{[^\n]*?\}\}/g, decoration: Decoration.mark({ class: "cm-expression" }) });
  return ViewPlugin.fromClass(class {
    constructor(view) { this.decorations = found.createDeco(view); }

    update(change) { this.decorations = found.updateDeco(change, this.decorations); }
  }, { decorations: (plugin) => plugin.decorations });
})();

/** CodeMirror's own words. */
const words = () => ({
  "Find": _("Find"), "Replace": _("Replace"), "next": _("next"), "previous": _("previous"), "all": _("all"), "match case": _("match case"),
  "by word": _("by word"), "regexp": _("pattern"), "replace": _("replace"), "replace all": _("replace all"), "close": _("close"),
  "Go to line": _("Go to line"), "go": _("go"), "Diagnostics": _("Problems"), "No diagnostics": _("No problems"),
  "current match": _("current match"), "on line": _("on line"), "replaced match on line $": _("replaced on line $"), "replaced $ matches": _("$ replaced"),
});

const SEVERITY = { error: "error", warning: "warning", advice: "info" };

/** Problems as CodeMirror wants them; those of other files are only listed. */
function marks(doc, name, flaws) {
  return flaws.filter((flaw) => flaw.file === name && flaw.line <= doc.lines).map((flaw) => {
    const line = doc.line(Math.max(1, flaw.line));
    const [from, to] = spot(line.text, flaw.column);
    return { from: line.from + from, to: line.from + to, severity: SEVERITY[flaw.severity], message: flaw.hint ? `${flaw.message}\n${flaw.hint}` : flaw.message };
  });
}

/** The text; `hand` is given what others do with it: `read`, `write`, `show`. */
export function TextEditor({ name, text, isReadOnly, checked, change, save, hand }) {
  const host = useRef(null);
  const view = useRef(null);
  const now = useRef({ change, save });
  now.current = { change, save };
  const parts = useRef({ language: new Compartment(), lock: new Compartment() });
  const spoken = () => [EditorState.phrases.of(words()), EditorView.contentAttributes.of({ "aria-label": _("Text of {name}", { name }), spellcheck: "false", autocapitalize: "off", tabindex: "0" })];
  const locked = () => [EditorState.readOnly.of(isReadOnly)];
  useEffect(() => {
    const root = host.current.attachShadow({ mode: "open" });
    const keys = keymap.of([{ key: "Mod-s", preventDefault: true, run: () => { now.current.save(); return true; } }, ...searchKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap]);
    const extensions = [
      lineNumbers(), highlightActiveLineGutter(), highlightActiveLine(), highlightSpecialChars(), history(), drawSelection(), indentOnInput(), bracketMatching(), search({ top: true }), lintGutter(), yaml(), EXPRESSIONS,
      syntaxHighlighting(COLOURS), LOOK, keys, indentUnit.of("  "), EditorState.tabSize.of(2), parts.current.language.of(spoken()), parts.current.lock.of(locked()),
      EditorView.updateListener.of((update) => { if (update.docChanged) now.current.change(update.state.doc.toString()); }),
      ...(matchMedia(NARROW).matches ? [EditorView.lineWrapping] : []),
    ];
    view.current = new EditorView({ state: EditorState.create({ doc: text, extensions }), parent: root, root });
    hand.current = {
      write: (made) => view.current.dispatch({ changes: { from: 0, to: view.current.state.doc.length, insert: made } }),
      show: (number) => {
        const line = view.current.state.doc.line(Math.min(Math.max(1, number), view.current.state.doc.lines));
        view.current.dispatch({ selection: { anchor: line.from }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
        view.current.focus();
      },
    };
    return () => { hand.current = null; view.current.destroy(); };
  }, []);
  // What was said of an earlier text is not marked in this one; marks that are there move along with it.
  useEffect(() => {
    const { state } = view.current;
    if (checked && state.doc.toString() === checked.text) view.current.dispatch(setDiagnostics(state, /** @type {any} */ (marks(state.doc, name, checked.problems))));
  }, [checked]);
  useEffect(() => view.current.dispatch({ effects: [parts.current.language.reconfigure(spoken()), parts.current.lock.reconfigure(locked())] }), [language.value, isReadOnly]);
  return html`<div class="text-editor" ref=${host} />`;
}
