// Which questions a list holds: the same rules as the server's, for what comes while the list is open.

/** @typedef {{run_id: string, contract_id: string, machine: string, title: string, digest: string, action: string, effect: string, reason: string,
 *   question: string, call_hash: string, since: number, by?: string, batch?: boolean, decided?: boolean}} DeskLine */

/** @type {[string, number][]} */
const AGES = [["hour", 3600], ["day", 86400], ["week", 604800], ["older", Infinity]];

/** How long a question has waited, roughly.
 * @param {DeskLine} line @param {number} now seconds since the epoch */
export const ageOf = (line, now) => AGES.find(([, most]) => now - line.since < most)[0];

/** Whether a filter takes a question.
 * @param {Record<string, string>} filter @param {DeskLine} line @param {number} now */
export function takes(filter, line, now = Date.now() / 1000) {
  const text = (filter.text || "").toLowerCase();
  const words = [line.question, line.title, line.machine, line.effect, line.by, line.run_id, line.contract_id].join(" ").toLowerCase();
  return (!text || words.includes(text)) && (!filter.age || ageOf(line, now) === filter.age)
    && ["machine", "effect", "by"].every((name) => !filter[name] || filter[name] === line[name]);
}
