"""Specs of a git revision: the files below a folder, read from the object store to a temporary one. No checkout."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from mono_gen.frozen import frozen

SUFFIX = ".layout"
MOST_FILES = 2000


class RevisionError(Exception):
    """A revision or a path that git does not have; the message says which, and what to write."""


@frozen
class Revision:
    """A path at a revision of a repository.

    root:   the top of the working tree.
    path:   below the root, with forward slashes; empty for the root itself.
    commit: the full name of the commit.
    """

    root: Path
    name: str
    path: str
    commit: str

    @property
    def shown(self) -> str:
        """Return the revision and path as git writes them."""
        return f"{self.name}:{self.path}"


def find_revision(text: str, default: str) -> Revision:
    """Return what `REV:path` means in the repository of the current folder; `REV:` alone means `default` beside it.

    As in git, a path counts from the top of the working tree, and `./path` from the current folder.
    Raises: RevisionError.
    """
    name, _, path = text.partition(":")
    try:
        top = _git("rev-parse", "--show-toplevel").decode(errors="surrogateescape").rstrip("\n")
        prefix = _git("rev-parse", "--show-prefix").decode(errors="surrogateescape").rstrip("\n")
    except subprocess.CalledProcessError as error:
        raise RevisionError(f"'{text}': the current folder is in no git repository") from error
    except FileNotFoundError as error:
        raise RevisionError(f"'{text}': git is not installed, or not in PATH") from error
    try:
        commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except subprocess.CalledProcessError as error:
        raise RevisionError(f"'{text}': no revision '{name}' in the repository {top}") from error
    relative = not path or path == "." or path.startswith(("./", "../"))
    whole = _normal(f"{prefix}{path or default}" if relative else path, text)
    return Revision(Path(top), name, whole, commit.decode().strip())


def _normal(path: str, text: str) -> str:
    """Return a path below the top without `.` and `..`."""
    parts: list[str] = []
    for part in PurePosixPath(path).parts:
        if part == "..":
            if not parts:
                raise RevisionError(f"'{text}': the path leads out of the repository")
            parts.pop()
        elif part not in (".", "/"):
            parts.append(part)
    return "/".join(parts)


def read_revision(revision: Revision, into: Path) -> Path:
    """Return the path below `into` that holds what the revision has at its path, after its specs were written there.

    A file comes with the specs beside it and below: imports are looked for there.
    Raises: RevisionError, where there is no such path, or no spec in it.
    """
    kind = _kind(revision, revision.path)
    if kind not in ("tree", "blob"):
        raise RevisionError(f"no '{revision.path}' at {revision.name} ({revision.commit[:10]}){_near(revision)}")
    if kind == "blob" and not revision.path.endswith(SUFFIX):
        raise RevisionError(f"'{revision.shown}' is not a {SUFFIX} file")
    folder = revision.path if kind == "tree" else revision.path.rpartition("/")[0]
    names = _specs_below(revision, folder)
    if kind == "tree" and not any("/" not in name for name in names):
        raise RevisionError(f"no spec found: no {SUFFIX} file in '{revision.shown}'")
    texts = _blobs(revision, [f"{folder}/{name}" if folder else name for name in names])
    for name, text in zip(names, texts, strict=True):
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
    return into if kind == "tree" else into / revision.path.rpartition("/")[2]


def _kind(revision: Revision, path: str) -> str:
    """Return what git has at a path of the revision: `tree`, `blob`, or nothing."""
    try:
        found = _git("cat-file", "-t", f"{revision.commit}:{path}", cwd=revision.root)
    except subprocess.CalledProcessError:
        return ""
    return found.decode().strip()


def _near(revision: Revision) -> str:
    """Return where the revision has specs, if it has them elsewhere."""
    found = _specs_below(revision, "")
    folders = sorted({name.rpartition("/")[0] or "." for name in found})
    return f"; it has specs in {', '.join(folders[:3])}" if folders else "; it has no specs at all"


def _specs_below(revision: Revision, folder: str) -> list[str]:
    """Return the specs below a folder at the revision, relative to it: files and links, no hidden ones."""
    listed = _git("ls-tree", "-r", "-z", "--name-only", f"{revision.commit}:{folder}", cwd=revision.root)
    names = (name.decode(errors="surrogateescape") for name in listed.split(b"\0"))
    found = [n for n in names if n.endswith(SUFFIX) and "\n" not in n and not n.rpartition("/")[2].startswith(".")]
    if len(found) > MOST_FILES:
        raise RevisionError(f"'{revision.name}:{folder}' holds {len(found):,} specs; at most {MOST_FILES:,} are read")
    return found


def _blobs(revision: Revision, paths: Sequence[str]) -> list[bytes]:
    """Return what the files hold at the revision, links followed inside it."""
    asked = "".join(f"{revision.commit}:{path}\n" for path in paths).encode(errors="surrogateescape")
    data = _git("cat-file", "--batch", "--follow-symlinks", cwd=revision.root, given=asked)
    found = []
    for path in paths:
        head, _, data = data.partition(b"\n")
        words = head.split(b" ")
        if len(words) != 3 or words[1] != b"blob":
            raise RevisionError(f"'{revision.name}:{path}' is a link that leads to no file of this revision")
        size = int(words[2])
        found.append(data[:size])
        data = data[size + 1 :]
    return found


def _git(*arguments: str, cwd: Path | None = None, given: bytes = b"") -> bytes:
    """Return what git prints.

    Raises: CalledProcessError, FileNotFoundError.
    """
    command = ["git", "--no-pager", "--no-optional-locks", *arguments]
    return subprocess.run(command, cwd=cwd, input=given, capture_output=True, check=True).stdout
