// The editor's packages, under one roof; fetched with the editor and with nothing else.
export { defaultKeymap, history, historyKeymap } from "../vendor/codemirror-commands.js";
export { yaml } from "../vendor/codemirror-lang-yaml.js";
export { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "../vendor/codemirror-language.js";
export { lintGutter, lintKeymap, setDiagnostics } from "../vendor/codemirror-lint.js";
export { search, searchKeymap } from "../vendor/codemirror-search.js";
export { Compartment, EditorState } from "../vendor/codemirror-state.js";
export { Decoration, EditorView, MatchDecorator, ViewPlugin, drawSelection, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "../vendor/codemirror-view.js";
export { tags } from "../vendor/lezer-highlight.js";
