// After the same decision again and again: the rule that would take it over, as text, with what it would have done.
import { html, signal } from "../lib.js";
import { _ } from "../language.js";
import { Text } from "../text.js";
import { say } from "../toast.js";
import { call } from "../wire.js";

const AT_LEAST = 5; // approvals by people, as `detent policy suggest` counts them
const ASK_AT = new Set([3, 5, 10, 20, 50]); // decisions of this page about one effect after which the server is asked
const counts = new Map();
const refused = new Set(); // rules that somebody did not want to see again
const offer = signal(null);

/** One more decision; asks the server now and then whether people's answers have become a rule. */
export async function countDecision(item, said) {
  const effect = item?.question.call.effect;
  if (!effect || effect === "ask" || said.approved !== true || item.question.reason !== "approval") return;
  counts.set(effect, (counts.get(effect) || 0) + 1);
  if (!ASK_AT.has(counts.get(effect)) || offer.peek()) return;
  try {
    const { suggestions } = await call(`/api/policy/suggest?at_least=${AT_LEAST}`);
    offer.value = suggestions.find((one) => one.effect === effect && !refused.has(one.name)) || null;
  } catch { /* it was only an offer */ }
}

export function Offer() {
  const rule = offer.value;
  if (!rule) return null;
  const close = () => { refused.add(rule.name); offer.value = null; };
  const copy = async () => {
    try { await navigator.clipboard.writeText(rule.yaml); say(_("Copied.")); } catch { say(_("The browser does not let this page copy; select the text."), "harm"); }
  };
  return html`<section class="card offer" aria-label=${_("A rule that people's answers suggest")}>
    <header><h2 class="grow">${_("You decide this again and again. A rule could.")}</h2><button class="small quiet" onClick=${close}>${_("Not now")}</button></header>
    <div class="body two"><div class="stack"><p><${Text} value=${rule.effect} />: ${_("approved {count} times by {who}, never refused.", { count: rule.approvals, who: rule.people.join(_(", ")) })}</p>
      <dl class="facts"><dt>${_("calls of the past it would have let pass")}</dt><dd>${rule.would_allow}</dd><dt>${_("questions it would have spared")}</dt><dd>${rule.would_spare}</dd>
        <dt>${_("let pass although somebody refused")}</dt><dd>${rule.allowed_though_refused}</dd></dl>
      <p class="soft">${_("Nothing is adopted by itself: put it into detent.policy.yaml, above the rules that ask.")}</p>
      <div><button onClick=${copy}>${_("Copy the rule")}</button></div></div>
      <pre class="rule" tabIndex="0">${`rules:\n${rule.yaml}`}</pre></div></section>`;
}
