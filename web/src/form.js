// A form made from a JSON Schema. The server checks again; here the same is said before anything is sent.
import { html, useEffect, useState } from "./lib.js";
import { _ } from "./language.js";
import { Text } from "./text.js";

const typeOf = (schema) => {
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type;
  if (type) return type;
  if (schema.enum) return "string";
  if (schema.properties) return "object";
  return "";
};

/** What a new form begins with. */
export function initial(schema, given) {
  if (given !== undefined) return given;
  if (schema.default !== undefined) return schema.default;
  if (typeOf(schema) === "object" && schema.properties) {
    const made = {};
    for (const [name, inner] of Object.entries(schema.properties)) {
      const value = initial(inner);
      if (value !== undefined) made[name] = value;
    }
    return made;
  }
  return typeOf(schema) === "boolean" ? false : undefined;
}

const FITS = {
  string: (value) => typeof value === "string", boolean: (value) => typeof value === "boolean",
  number: (value) => typeof value === "number" && Number.isFinite(value), integer: Number.isInteger,
  array: Array.isArray, object: (value) => value !== null && typeof value === "object" && !Array.isArray(value),
};

/** After a check, go to the first field that does not fit. */
export function useFirstWrong(form, wrong) {
  useEffect(() => { if (Object.keys(wrong).length) form.current?.querySelector("[aria-invalid=true]")?.focus(); }, [wrong]);
}

/** Problems by path, as sentences. */
export function problems(schema, value, path = "", isRequired = false) {
  const type = typeOf(schema);
  if (value === undefined || value === null) return isRequired ? { [path]: _("is needed") } : {};
  if (value instanceof Broken) return { [path]: _("is not JSON: {problem}", { problem: value.problem }) };
  if (type && FITS[type] && !FITS[type](value)) return { [path]: _("must be: {type}", { type }) };
  if (schema.enum && !schema.enum.some((one) => JSON.stringify(one) === JSON.stringify(value))) return { [path]: _("must be one of: {values}", { values: schema.enum.join(", ") }) };
  if (type === "string") {
    if (isRequired && value === "" && schema.minLength !== 0) return { [path]: _("is needed") };
    if (schema.minLength && value.length < schema.minLength) return { [path]: _("needs at least {count} characters", { count: schema.minLength }) };
    if (schema.maxLength && value.length > schema.maxLength) return { [path]: _("has more than {count} characters", { count: schema.maxLength }) };
    if (schema.pattern) { try { if (!new RegExp(schema.pattern, "u").test(value)) return { [path]: _("must match {pattern}", { pattern: schema.pattern }) }; } catch { /* the server knows its own dialect */ } }
  }
  if (type === "number" || type === "integer") {
    if (schema.minimum !== undefined && value < schema.minimum) return { [path]: _("must be at least {limit}", { limit: schema.minimum }) };
    if (schema.maximum !== undefined && value > schema.maximum) return { [path]: _("must be at most {limit}", { limit: schema.maximum }) };
  }
  const found = {};
  if (type === "object" && schema.properties) {
    for (const [name, inner] of Object.entries(schema.properties)) {
      Object.assign(found, problems(inner, value[name], path ? `${path}.${name}` : name, (schema.required || []).includes(name)));
    }
  }
  return found;
}

/** Text that should be JSON and is not (yet). */
export class Broken {
  constructor(text, problem) { this.text = text; this.problem = problem; }
}

function Json({ id, value, change, wrong }) {
  const [text, setText] = useState(() => (value === undefined ? "" : value instanceof Broken ? value.text : JSON.stringify(value, null, 2)));
  const input = (event) => {
    const typed = event.target.value;
    setText(typed);
    if (!typed.trim()) { change(undefined); return; }
    try { change(JSON.parse(typed)); } catch (error) { change(new Broken(typed, error.message)); }
  };
  return html`<textarea id=${id} class="mono" spellcheck="false" value=${text} onInput=${input} aria-invalid=${wrong ? "true" : "false"} placeholder="{ }" />`;
}

function Control({ id, schema, value, change, wrong }) {
  const type = typeOf(schema);
  const shared = { id, "aria-invalid": wrong ? "true" : "false", "aria-describedby": `${id}-about` };
  if (schema.enum) {
    return html`<select ...${shared} value=${value === undefined ? "" : String(schema.enum.indexOf(value))} onChange=${(event) => change(event.target.value === "" ? undefined : schema.enum[Number(event.target.value)])}>
      <option value="">${_("choose…")}</option>${schema.enum.map((one, at) => html`<option value=${String(at)}>${String(one)}</option>`)}</select>`;
  }
  if (type === "boolean") return html`<input type="checkbox" ...${shared} checked=${value === true} onChange=${(event) => change(event.target.checked)} />`;
  if (type === "number" || type === "integer") {
    return html`<input type="number" step=${type === "integer" ? 1 : "any"} ...${shared} value=${value ?? ""} min=${schema.minimum} max=${schema.maximum}
      onInput=${(event) => change(event.target.value === "" ? undefined : event.target.valueAsNumber)} />`;
  }
  if (type === "string" || (type === "" && typeof value === "string")) {
    const isLong = (schema.maxLength || 0) > 200 || schema.format === "multiline" || (typeof value === "string" && (value.length > 80 || value.includes("\n")));
    const kinds = { date: "date", email: "email", uri: "url", password: "password" };
    return isLong
      ? html`<textarea ...${shared} value=${value ?? ""} onInput=${(event) => change(event.target.value)} />`
      : html`<input type=${kinds[schema.format] || "text"} autocomplete=${schema.format === "password" ? "new-password" : undefined} ...${shared} value=${value ?? ""} onInput=${(event) => change(event.target.value)} />`;
  }
  return html`<${Json} id=${id} value=${value} change=${change} wrong=${wrong} />`;
}

/** One field, or a group of them. */
export function Field({ name, schema, value, change, wrong, path = name, isRequired = false, prefix = "field" }) {
  const id = `${prefix}-${path.replace(/[^\w-]/g, "_")}`;
  const title = schema.title || name;
  if (typeOf(schema) === "object" && schema.properties && Object.keys(schema.properties).length) {
    return html`<fieldset class="stack">
      ${name && html`<legend class="label"><${Text} value=${title} /></legend>`}
      <div class=${`stack ${name ? "inner" : ""}`}><${Fields} schema=${schema} value=${value || {}} change=${change} wrong=${wrong} path=${path} prefix=${prefix} /></div></fieldset>`;
  }
  const problem = wrong[path];
  const label = html`<label for=${id}><${Text} value=${title} />${isRequired && html` <span class="faint" title=${_("is needed")}>*</span>`}</label>`;
  const control = html`<${Control} id=${id} schema=${schema} value=${value} change=${change} wrong=${problem} />`;
  const isCheck = typeOf(schema) === "boolean" && !schema.enum;
  return html`<div class=${`field ${isCheck ? "check" : ""}`}>${isCheck ? [control, label] : [label, control]}
    <div id=${`${id}-about`}>${schema.description && html`<div class="hint"><${Text} value=${schema.description} /></div>`}
    ${problem && html`<div class="wrong" role="alert"><${Text} value=${`${title} ${problem}`} /></div>`}</div></div>`;
}

export function Fields({ schema, value, change, wrong, path = "", prefix = "field" }) {
  const needed = schema.required || [];
  const sorted = Object.entries(schema.properties || {}).sort(([a], [b]) => Number(needed.includes(b)) - Number(needed.includes(a)));
  return sorted.map(([name, inner]) => html`<${Field} key=${name} name=${name} schema=${inner} value=${value[name]}
    path=${path ? `${path}.${name}` : name} isRequired=${needed.includes(name)} wrong=${wrong} prefix=${prefix}
    change=${(given) => { const next = { ...value }; if (given === undefined) delete next[name]; else next[name] = given; change(next); }} />`);
}

/** A whole form; a schema without properties is one JSON field. */
export function SchemaForm({ schema, value, change, wrong, prefix }) {
  if (typeOf(schema) === "object" && Object.keys(schema.properties || {}).length) {
    return html`<${Fields} schema=${schema} value=${value || {}} change=${change} wrong=${wrong} prefix=${prefix} />`;
  }
  return html`<${Field} name=${_("data")} path="" schema=${schema} value=${value} change=${change} wrong=${wrong} prefix=${prefix} />`;
}
