"""Static files: the modules of a page put together."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.console.assets import Assets


def put_together(folder: Path, *modules: str, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text)
    assets = Assets([modules], folder)
    asset = assets.find(assets.script(modules))
    assert asset is not None
    return asset.body.decode()


def test_modules_come_after_those_that_they_import_from_and_once(tmp_path: Path) -> None:
    found = put_together(
        tmp_path,
        "b.js",
        "c.js",
        a="export const one = 1;\nexport async function two() {}\n",
        b="import { one, two } from './a.js';\n\nexport class Three {}\n",
        c="import { Three } from './b.js';\nimport { one } from './a.js';\n",
    )
    assert found == (
        "// a.js\nconst $a = (() => {\nconst one = 1;\nasync function two() {}\nreturn { one, two };\n})();\n"
        "// b.js\nconst $b = (() => {\nconst { one, two } = $a;\n\nclass Three {}\nreturn { Three };\n})();\n"
        "// c.js\nconst $c = (() => {\nconst { Three } = $b;\nconst { one } = $a;\nreturn {  };\n})();\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "import * as a from './a.js';\n",
            "import './a.js';\n",
            "import {\n  a,\n} from './a.js';\n",
            "await import('./a.js')",
        ),
        *("export default 1;\n", "export let a = 1;\n", "export { a };\n"),
    ],
)
def test_other_forms_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"b\.js: not a form of import or export"):
        put_together(tmp_path, "b.js", a="export const a = 1;\n", b=text)
