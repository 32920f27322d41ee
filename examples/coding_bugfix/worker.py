"""A worker without a model: its first attempt is wrong, its second is right. Any agent's command line fits here."""

import json
import os
from pathlib import Path

attempt = int(os.environ["DETENT_ATTEMPT"])
failures = json.loads(Path(os.environ["DETENT_FAILURES_FILE"]).read_text(encoding="utf-8"))
print(f"attempt {attempt}, {len(failures)} failing checks")
calc = Path("calc.py")
wrong, right = ("a - b", "a * b") if attempt == 1 else ("a * b", "a + b")
calc.write_text(calc.read_text(encoding="utf-8").replace(wrong, right), encoding="utf-8")
said = {"status": "done", "summary": f"{wrong} became {right}"}
Path(os.environ["DETENT_RESULT_FILE"]).write_text(json.dumps(said), encoding="utf-8")
