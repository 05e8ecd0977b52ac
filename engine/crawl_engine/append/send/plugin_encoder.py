"""Writes the files of plugin encoders: their process gives the bytes, the appender writes them."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from crawl_engine.append.formats.file_writer import FileWriter
from crawl_engine.append.formats.row_json import to_one_line
from crawl_engine.append.formats.writer import RowEncoder, Writer, file_mode
from crawl_engine.append.loop.chosen_outputs import loop_kind
from crawl_engine.append.object_writer import create_object_writer
from crawl_engine.append.send.class_process import ClassProcess, ClassSpec
from crawl_engine.model.output_type import is_object
from crawl_engine.store.tables.output.outputs import Output

CHUNK_ROWS, CHUNK_CHARACTERS = 500, 4_000_000
"""Rows of one request: the limit of a class is for so many."""


class UsersEncoder(RowEncoder):
    """Has a class encode the rows of one file."""

    def __init__(self, process: ClassProcess) -> None:
        self._process = process

    @property
    def has_footer(self) -> bool:
        """Whether the class has a footer. Known once `header` was called."""
        return self._process.has_footer

    def header(self) -> bytes:
        """The first bytes of the file. Raises OutputFailed, SupervisorGone."""
        return self._process.header()

    def footer(self) -> bytes:
        """The last bytes of the file. Raises OutputFailed, SupervisorGone."""
        return self._process.footer()

    def rows(self, rows: Iterable[str]) -> bytes:
        """The bytes of stored rows. Raises OutputFailed, SupervisorGone."""
        parts: list[bytes] = []
        lines: list[bytes] = []
        size = 0
        for row in rows:
            lines.append(to_one_line(row).encode("utf-8", "replace"))
            size += len(lines[-1])
            if len(lines) >= CHUNK_ROWS or size >= CHUNK_CHARACTERS:
                parts.append(self._process.ask("encode", lines))
                lines, size = [], 0
        if lines:
            parts.append(self._process.ask("encode", lines))
        return b"".join(parts)


class EncodedOutput:
    """Chooses the output of one plugin encoder. `create_process` creates the process of a class."""

    backs_off = True

    def __init__(
        self, appender: str, data_def: str, create_process: Callable[[str, str, Sequence[Output]], ClassProcess]
    ) -> None:
        self._key = (appender, data_def)
        self._create_process = create_process
        self._process: ClassProcess | None = None

    def choose(self, declared: Sequence[Output]) -> list[Output]:
        """The output, as long as a class encodes it."""
        return [o for o in declared if (o.appender, o.data_def) == self._key and loop_kind(o) == "encoder"]

    def create_writer(self, output: Output, *, run: str, folder: Path) -> Writer:  # noqa: ARG002 - of databases
        """The writer of the file; a new process replaces the one of the old settings."""
        self.close()
        self._process = self._create_process(output.type, "/".join(self._key), [output])
        encoder = UsersEncoder(self._process)

        def create(file: Output) -> Writer:
            return FileWriter(Path(file.path), encoder, mode=file_mode(file, folder), ending=b"")

        return create_object_writer(output, folder, create) if is_object(output.path) else create(output)

    def close(self) -> None:
        """End the process; may be called again."""
        if self._process is not None:
            self._process.close()
            self._process = None


def class_spec(type_: str, declared: Sequence[Output], *, limit: float, memory: int) -> ClassSpec:
    """How the class of these outputs is created. They differ only in their dataDefs.

    `limit`: seconds for one request if the defs set none.
    """
    settings = declared[0].settings
    return ClassSpec(
        name=type_,
        kind=loop_kind(declared[0]),
        options=settings["options"],
        data_defs={
            output.data_def: {
                "columns": output.settings["columns"],
                "types": output.settings["types"],
                "item_types": output.settings["item_types"],
            }
            for output in declared
        },
        limit=settings["limit"] or limit,
        memory=memory,
    )
