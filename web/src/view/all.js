// Views of special kinds of runs; each says itself which runs it fits, and stands first among the tabs of such a run.
import * as chat from "./chat.js";
import * as coding from "./coding.js";
import * as notebook from "./notebook.js";

export const VIEWS = [notebook, coding, chat];
