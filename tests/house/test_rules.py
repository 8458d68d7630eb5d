"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "npuforge"
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 120

# rooms by layer, bottom first: a room imports its own layer and those below
LAYERS = (
    ("vocab", "messages", "errors", "_native"),
    ("graph", "artefacts", "targets"),
    ("importers", "exporters", "passes", "numerics", "tasks"),
    ("mapping", "accelerators", "lowering", "aton", "lint"),
    ("memory", "cost", "quantize"),
    ("explore", "firmware", "boards"),
    ("validate", "doctor"),
    ("pipeline",),
    ("report",),
    (
        "api",
        "api_aton",
        "api_board",
        "api_cost",
        "api_doctor",
        "api_memory",
        "api_optimize",
        "api_quantize",
    ),
    ("cli",),
)
LAYER_OF = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
FRAMEWORKS = {"ai_edge_litert", "onnxruntime", "tflite_micro", "tensorflow", "torch", "keras"}


def python_files(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == "npuforge":
                names = [f"npuforge.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "npuforge" and len(parts) > 1:
                rooms.add(parts[1])
    return rooms


@pytest.mark.parametrize(
    "path",
    python_files(SOURCE, ROOT / "tests", ROOT / "benchmarks")
    + sorted((ROOT / "runtime").rglob("*.[ch]"))
    + sorted((ROOT / "native").rglob("*.[ch]*")),
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_file_size(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MAX_FILE_LINES, f"{lines} lines"


@pytest.mark.parametrize("path", python_files(SOURCE), ids=lambda p: str(p.relative_to(SOURCE)))
def test_function_size(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", python_files(SOURCE), ids=lambda p: str(p.relative_to(SOURCE)))
def test_import_layers(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    assert room in LAYER_OF, f"room {room} has no layer"
    for other in imported_rooms(path):
        if other in ("__version__",):
            continue
        assert other in LAYER_OF, f"imports {other}, which has no layer"
        assert LAYER_OF[other] <= LAYER_OF[room], f"{room} imports {other}, which stands above it"


def test_accelerators_do_not_know_each_other() -> None:
    folder = SOURCE / "accelerators"
    packages = {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    for package in packages:
        for path in python_files(folder / package):
            text = path.read_text(encoding="utf-8")
            for other in packages - {package}:
                assert f"accelerators.{other}" not in text, f"{path.name} imports {other}"


@pytest.mark.parametrize("path", python_files(SOURCE), ids=lambda p: str(p.relative_to(SOURCE)))
def test_frameworks_are_oracles_only(path: Path) -> None:
    """Only validation may touch an inference framework, and only inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
        for module in modules:
            if module.split(".")[0] in FRAMEWORKS:
                assert room_of(path) in ("validate", "quantize"), f"imports {module}"
                assert node not in tree.body, f"imports {module} at module level"


def tracked_files() -> list[Path]:
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.split("\0") if name]


def test_no_machine_paths_or_large_files() -> None:
    path_pattern = re.compile(r"(?<![\w./])/(?:root|home/[a-z]\w*|work|Users)/")
    for path in tracked_files():
        if not path.is_file():
            continue
        assert path.stat().st_size <= 2 << 20, f"{path} is larger than 2 MiB"
        if path.suffix in {".py", ".md", ".toml", ".c", ".h", ".cpp", ".txt", ".yml", ".j2", ".ld"}:
            found = path_pattern.search(path.read_text(encoding="utf-8"))
            assert found is None or path == Path(__file__), f"{path}: {found}"
