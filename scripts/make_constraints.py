"""Write the SHA-256 of every file of the pinned releases into constraints.txt.

    python scripts/make_constraints.py [options of `pip install`]

Change the versions by hand (`name==version`; what stands below may stay), then run this. Files are looked for where pip
looks: in the indexes and the folders of wheels of its configuration, and of the options.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from pip._internal.commands import create_command
from pip._internal.index.collector import LinkCollector, parse_links
from pip._internal.models.link import Link
from pip._vendor.packaging.utils import canonicalize_name

CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"
PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[\w.]+)(?P<hashes>( \\\n +--hash=\S+)*)$", re.MULTILINE)


def main() -> None:
    command = create_command("install")
    options, _ = command.parse_args(sys.argv[1:])
    with command.main_context():
        collector = LinkCollector.create(command.get_default_session(options), options)
        text = PIN.sub(lambda pin: hashed(pin, collector), CONSTRAINTS.read_text(encoding="utf-8"))
    CONSTRAINTS.write_text(text, encoding="utf-8")


def hashed(pin: re.Match[str], collector: LinkCollector) -> str:
    """The pin with the hashes of all files of its release."""
    name, version = pin["name"], pin["version"]
    # After the version: the tags of a wheel, a build for some machines (`+cpu`), or the ending of a source archive.
    file_name = re.compile(
        rf"{re.sub('[-_.]', '[-_.]', name)}-{re.escape(version)}([-+].*|\.tar\.gz|\.zip)", re.IGNORECASE
    )
    found = {sha256(link) for link in links(name, collector) if file_name.fullmatch(link.filename)}
    if not found:
        sys.exit(f"{CONSTRAINTS}: pip finds no file of {name}=={version}; correct the version, or say where to look")
    known = set(re.findall(r"--hash=sha256:(\w+)", pin["hashes"]))
    if known & found:  # the same release: a build that only another machine can find stays
        found |= known
    print(f"{name}=={version}: {len(found)} files")
    return " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in sorted(found))])


def links(name: str, collector: LinkCollector) -> Iterator[Link]:
    """Every file of a project, of any release and for any machine, that pip is told of."""

    def links_of(page: Link) -> Iterable[Link]:
        content = collector.fetch_response(page)
        return parse_links(content) if content else ()

    for source in filter(None, chain(*collector.collect_sources(canonicalize_name(name), links_of))):
        yield from source.page_candidates()
        yield from source.file_links()


def sha256(link: Link) -> str:
    """As the index has it; a file in a folder is read."""
    if link.hash and link.hash_name == "sha256":
        return link.hash
    return hashlib.sha256(Path(link.file_path).read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
